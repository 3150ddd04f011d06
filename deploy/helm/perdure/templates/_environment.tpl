{{/* The PERDURE_* variables of one service; call with root and service. */}}
{{- define "perdure.environment" -}}
{{- $root := .root }}
{{- $service := .service }}
{{- $values := $root.Values }}
- {name: PERDURE_HOST, value: "0.0.0.0"}
- {name: PERDURE_OPS_PORT, value: {{ $service.facts.ops | quote }}}
{{- if $service.facts.grpc }}
- {name: PERDURE_GRPC_PORT, value: {{ $service.facts.grpc | quote }}}
{{- end }}
{{- with $service.facts.http }}
- {name: PERDURE_HTTP_PORT, value: {{ . | quote }}}
{{- end }}
- {name: PERDURE_DRAIN_SECONDS, value: {{ $service.settings.drainSeconds | quote }}}
- {name: PERDURE_LOG_FORMAT, value: {{ $values.telemetry.logFormat | quote }}}
- {name: PERDURE_LOG_LEVEL, value: {{ $values.telemetry.logLevel | quote }}}
{{- with $values.telemetry.otlpEndpoint }}
- {name: PERDURE_OTLP_ENDPOINT, value: {{ . | quote }}}
{{- end }}
{{- if $service.facts.coordinator }}
{{- $coordinator := index (include "perdure.facts" $root | fromYaml) "coordinator" }}
- name: PERDURE_COORDINATOR_ADDRESS
  value: {{ printf "dns:///%s-coordinator-headless.%s.svc:%v" (include "perdure.fullname" $root) $root.Release.Namespace $coordinator.grpc | quote }}
{{- end }}
{{- if include "perdure.provesItself" (dict "root" $root "facts" $service.facts) }}
- {name: PERDURE_TLS_CERT, value: /etc/perdure/tls/tls.crt}
- {name: PERDURE_TLS_KEY, value: /etc/perdure/tls/tls.key}
- {name: PERDURE_TLS_CA, value: /etc/perdure/tls/ca.crt}
{{- end }}
{{- if and $service.facts.public $values.tls.public.existingSecret }}
- {name: PERDURE_PUBLIC_TLS_CERT, value: /etc/perdure/public/tls.crt}
- {name: PERDURE_PUBLIC_TLS_KEY, value: /etc/perdure/public/tls.key}
{{- end }}
{{- if $service.facts.database }}
{{- $secret := required "database.existingSecret: name of the secret with the database URLs" $values.database.existingSecret }}
{{ include "perdure.secretEnv" (dict "variable" "PERDURE_DATABASE_URL" "secret" $secret "key" (index $values.database.keys $service.name)) }}
{{- with index $values.database.directKeys $service.name }}
{{ include "perdure.secretEnv" (dict "variable" "PERDURE_DATABASE_DIRECT_URL" "secret" $secret "key" .) }}
{{- end }}
{{- end }}
{{- if $service.facts.redis }}
{{ include "perdure.secretEnv" (dict "variable" "PERDURE_REDIS_URL" "secret" (required "redis.existingSecret: name of the secret with the Redis URL" $values.redis.existingSecret) "key" $values.redis.key) }}
{{- end }}
{{- if $service.facts.pageTokens }}
{{ include "perdure.secretEnv" (dict "variable" "PERDURE_PAGE_TOKEN_KEY" "secret" (required "pageTokens.existingSecret: name of the secret that signs page tokens" $values.pageTokens.existingSecret) "key" $values.pageTokens.key) }}
{{- end }}
{{- if eq $service.service "worker" }}
{{ include "perdure.secretEnv" (dict "variable" "PERDURE_TASK_TOKEN_KEYS" "secret" (required "taskTokens.existingSecret: name of the secret that signs tokens of tasks" $values.taskTokens.existingSecret) "key" $values.taskTokens.key) }}
- {name: PERDURE_WORKER_AUTH, value: {{ $values.auth.mode | quote }}}
{{- end }}
{{- if eq $service.service "ingest" }}
{{- $jwt := $values.auth.jwt }}
- {name: PERDURE_INGEST_AUTH, value: {{ $values.auth.mode | quote }}}
- {name: PERDURE_INGEST_INSTALLATION_ORG, value: {{ $values.auth.installationOrg | quote }}}
{{- if $jwt.issuer }}
- {name: PERDURE_INGEST_JWT_ISSUER, value: {{ $jwt.issuer | quote }}}
- {name: PERDURE_INGEST_JWT_AUDIENCE, value: {{ required "auth.jwt.audience: whom tokens are for" $jwt.audience | quote }}}
- {name: PERDURE_INGEST_JWT_JWKS, value: {{ required "auth.jwt.jwks: where the provider's keys are" $jwt.jwks | quote }}}
- {name: PERDURE_INGEST_JWT_ROLE_CLAIM, value: {{ $jwt.roleClaim | quote }}}
{{- $pairs := list }}
{{- range $value, $role := $jwt.roles }}
{{- $pairs = append $pairs (printf "%s=%s" $value $role) }}
{{- end }}
- {name: PERDURE_INGEST_JWT_ROLES, value: {{ join "," $pairs | quote }}}
{{- end }}
{{- end }}
{{- if eq $service.service "worker" }}
{{- with $values.egress.allow }}
- {name: PERDURE_WORKER_EGRESS_ALLOW, value: {{ join "," . | quote }}}
{{- end }}
{{- if $values.egress.caConfigMap }}
- {name: PERDURE_WORKER_EGRESS_CA_FILE, value: {{ printf "/etc/perdure/egress/%s" $values.egress.caKey | quote }}}
{{- end }}
{{- end }}
{{- if $service.told }}
- {name: PERDURE_WORKER_QUEUES, value: {{ $service.queues | quote }}}
- {name: PERDURE_WORKER_SLOTS, value: {{ $service.slots | int | quote }}}
{{- end }}
{{- with $service.settings.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}
