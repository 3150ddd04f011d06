{{/* What each service is, whatever the values say. */}}
{{- define "perdure.facts" -}}
ingest:      {tls: true, public: true, ops: 7409, grpc: 7400, http: 7401, database: true,  redis: false, coordinator: true, pageTokens: true}
coordinator: {tls: true, ops: 7419, grpc: 7410, database: true,  redis: false, coordinator: false}
worker:      {tls: true, public: true, ops: 7429, grpc: 7420, database: false, redis: true,  coordinator: true}
relay:       {tls: false, ops: 7439, grpc: 0,    database: true,  redis: true,  coordinator: false}
timer:       {tls: true, ops: 7449, grpc: 0,    database: true,  redis: false, coordinator: true}
sweeper:     {tls: true, ops: 7459, grpc: 0,    database: true,  redis: false, coordinator: true}
{{- end }}

{{/* What a worker serves that is told of no queues. */}}
{{- define "perdure.defaultQueues" -}}
io:shared,io:default,slow:shared,slow:default
{{- end }}

{{/* A list of workloads, each with its name, service, facts and merged settings, as JSON under the key `all`. */}}
{{- define "perdure.services" -}}
{{- $root := . }}
{{- $facts := include "perdure.facts" . | fromYaml }}
{{- $all := list }}
{{- range $name, $of := $facts }}
{{- $settings := mustMergeOverwrite (deepCopy $root.Values.defaults) (deepCopy (index $root.Values.services $name | default dict)) }}
{{- $workload := dict "name" $name "service" $name "facts" $of "settings" $settings "fullname" (printf "%s-%s" (include "perdure.fullname" $root) $name) }}
{{- if eq $name "worker" }}
{{- $workload = set $workload "queues" (include "perdure.defaultQueues" $root) }}
{{- end }}
{{- $all = append $all $workload }}
{{- end }}
{{- range $worker := .Values.workers }}
{{- $name := printf "worker-%s" $worker.name }}
{{- $settings := mustMergeOverwrite (deepCopy $root.Values.defaults) (deepCopy ($root.Values.services.worker | default dict)) (deepCopy ($worker.settings | default dict)) }}
{{- $all = append $all (dict "name" $name "service" "worker" "facts" $facts.worker "settings" $settings "fullname" (printf "%s-%s" (include "perdure.fullname" $root) $name) "queues" (join "," $worker.queues) "slots" $worker.slots "told" true) }}
{{- end }}
{{- dict "all" $all | toJson }}
{{- end }}

{{- define "perdure.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* 40 characters leave room for "-coordinator-headless" within a DNS label. */}}
{{- define "perdure.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "perdure.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "perdure.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "perdure.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/* Labels that never change, since a selector cannot; call with root and component. */}}
{{- define "perdure.selectorLabels" -}}
app.kubernetes.io/name: {{ include "perdure.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "perdure.labels" -}}
{{ include "perdure.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "perdure.serviceAccountName" -}}
{{- if .settings.serviceAccount.create }}
{{- default .fullname .settings.serviceAccount.name }}
{{- else }}
{{- default "default" .settings.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* The least number of replicas that run. */}}
{{- define "perdure.minReplicas" -}}
{{- ternary .settings.autoscaling.minReplicas .settings.replicas .settings.autoscaling.enabled }}
{{- end }}

{{/* What every pod of the chart has; call with root. */}}
{{- define "perdure.podSettings" -}}
automountServiceAccountToken: false
# Kubernetes would otherwise set PERDURE_*_PORT variables that read like settings.
enableServiceLinks: false
securityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What every container of the chart has; call with root. */}}
{{- define "perdure.containerSettings" -}}
image: {{ include "perdure.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  {{- toYaml .root.Values.containerSecurityContext | nindent 2 }}
{{- end }}

{{/* Whether a workload is scaled on what its queues hold. */}}
{{- define "perdure.scalesOnBacklog" -}}
{{- if and .queues .settings.autoscaling.enabled (gt (float64 .settings.autoscaling.backlogStepsPerReplica) 0.0) }}yes{{ end }}
{{- end }}

{{/* One environment variable out of a secret. */}}
{{- define "perdure.secretEnv" -}}
- name: {{ .variable }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .key }}
{{- end }}

{{/* The secret with the certificate of a service; call with root and service. */}}
{{- define "perdure.tlsSecret" -}}
{{- printf "%s%s" (default (printf "%s-tls-" (include "perdure.fullname" .root)) .root.Values.tls.secretPrefix) .service }}
{{- end }}

{{/* Whether a service proves who it is; call with root and facts. */}}
{{- define "perdure.provesItself" -}}
{{- if and .facts.tls (ne .root.Values.tls.mode "off") }}yes{{ end }}
{{- end }}
