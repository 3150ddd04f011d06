"""What is read for the doors: whole runs, lists, histories, workflows, and what has stopped.

Nothing here decides anything: no lock is taken, and what is read may be old when it is shown.
"""
