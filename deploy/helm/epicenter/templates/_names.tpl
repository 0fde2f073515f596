{{- /* Without dots, because Services are named after it. */}}
{{- define "epicenter.fullname" -}}
{{- $release := .Release.Name | replace "." "-" }}
{{- if contains "epicenter" $release }}{{ $release | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-epicenter" ($release | trunc 30 | trimSuffix "-") }}{{ end }}
{{- end }}

{{- define "epicenter.selector" -}}
app.kubernetes.io/name: epicenter
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "epicenter.labels" -}}
{{ include "epicenter.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "epicenter.image" -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag }}{{ end }}
{{- end }}

{{- define "epicenter.ourImage" -}}
{{- with .Values.image }}
{{- include "epicenter.image" (dict "repository" .repository "digest" .digest "tag" (.tag | default $.Chart.AppVersion)) }}
{{- end }}
{{- end }}
