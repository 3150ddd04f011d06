-- Jobs among the runs of an org: runs of workflows that are job types. Other runs do not pay for it.

CREATE INDEX runs_of_jobs ON runs (org, run_id) WHERE workflow LIKE 'job:%';
