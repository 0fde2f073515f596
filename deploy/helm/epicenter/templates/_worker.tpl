{{- /* A Deployment of workers: `component`, its `values`, `services` (what its pods do). Pods that only match get neither
the store nor the alerts file. */}}
{{- define "epicenter.workers" -}}
{{- $root := .root }}
{{- $onlyMatches := eq .services "match" }}
{{- $config := list "topology" }}
{{- if not $onlyMatches }}{{ $config = list "topology" "alerts" }}{{ end }}
{{- $given := dict "root" .root "config" $config }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "epicenter.fullname" .root }}-{{ .component }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "epicenter.labels" . | nindent 4 }}
spec:
  {{- if not .scaled }}
  replicas: {{ .values.replicas }}
  {{- end }}
  revisionHistoryLimit: 3
  # Replace all at once: an older worker turns messages of newer ones into dead letters. Kafka keeps the lines that come
  # meanwhile.
  strategy: {type: Recreate}
  selector:
    matchLabels:
      {{- include "epicenter.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "epicenter.labels" . | nindent 8 }}
        {{- with .root.Values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        {{- range $config }}
        checksum/{{ . }}: {{ (index $root.Values .).file | sha256sum }}
        {{- end }}
        {{- with .root.Values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "epicenter.fullname" .root }}
      {{- include "epicenter.podBasics" .root | nindent 6 }}
      {{- include "epicenter.placement" .values | nindent 6 }}
      {{- include "epicenter.spread" . | nindent 6 }}
      containers:
        - name: {{ .component }}
          image: {{ include "epicenter.ourImage" .root | quote }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args: [worker]
          env:
            {{- include "epicenter.env" .root | nindent 12 }}
            {{- include "epicenter.kafkaEnv" (dict "root" .root "user" "worker") | nindent 12 }}
            - {name: EPICENTER_CLUSTER, value: {{ .root.Values.cluster | quote }}}
            - {name: EPICENTER_SERVICES, value: {{ .services | quote }}}
            - {name: EPICENTER_WEB_HOST, value: 0.0.0.0}
            - {name: EPICENTER_WEB_PORT, value: "6066"}
            {{- with include "epicenter.rulePacks" .root }}
            - {name: EPICENTER_RULE_PACKS, value: {{ . | quote }}}
            {{- end }}
            {{- range $config }}
            {{- $one := index $root.Values . }}
            {{- if or $one.file $one.configMap }}
            - {name: EPICENTER_{{ upper . }}, value: /etc/epicenter/{{ . }}/{{ . }}.yaml}
            {{- end }}
            {{- end }}
          ports:
            - {name: web, containerPort: 6066}
          # A start takes seconds, or half a minute on a processor that can't use the image's compiled patterns.
          startupProbe:
            {{- include "epicenter.alive" "web" | nindent 12 }}
            periodSeconds: 5
            timeoutSeconds: 15
            failureThreshold: 60
          livenessProbe:
            {{- include "epicenter.alive" "web" | nindent 12 }}
            periodSeconds: 30
            timeoutSeconds: 15
            failureThreshold: 4
          # 503: its groups have not been joined, no fetch for 60 s, or its store is unreachable. A restart does not help.
          readinessProbe:
            httpGet: {path: /readyz, port: web}
            periodSeconds: 10
            timeoutSeconds: 5
          resources:
            {{- toYaml .values.resources | nindent 12 }}
          securityContext:
            {{- include "epicenter.containerSecurity" .root | nindent 12 }}
          volumeMounts:
            {{- include "epicenter.ourMounts" dict | nindent 12 }}
            {{- include "epicenter.kafkaMount" .root | nindent 12 }}
            {{- if not $onlyMatches }}
            {{- include "epicenter.storeMount" .root | nindent 12 }}
            {{- end }}
            {{- include "epicenter.configMounts" $given | nindent 12 }}
      volumes:
        {{- include "epicenter.ourVolumes" .root | nindent 8 }}
        {{- include "epicenter.secretsVolume" (dict "root" .root "secret" .root.Values.secrets.worker "keys" (ternary (list "web_token") (list "store" "web_token") $onlyMatches) "user" "worker") | nindent 8 }}
        {{- include "epicenter.kafkaVolume" .root | nindent 8 }}
        {{- if not $onlyMatches }}
        {{- include "epicenter.storeVolume" .root | nindent 8 }}
        {{- end }}
        {{- include "epicenter.configVolumes" $given | nindent 8 }}
{{- end }}

{{- define "epicenter.rulePacks" -}}
{{- $folders := list }}
{{- if .Values.rulePacks.files }}{{ $folders = append $folders "/etc/epicenter/rules/chart" }}{{ end }}
{{- range $number, $_ := .Values.rulePacks.configMaps }}
{{- $folders = append $folders (printf "/etc/epicenter/rules/%d" $number) }}
{{- end }}
{{- join ":" $folders }}
{{- end }}

{{- define "epicenter.configMounts" -}}
{{- $values := .root.Values }}
{{- if $values.rulePacks.files }}
- {name: rules, mountPath: /etc/epicenter/rules/chart, readOnly: true}
{{- end }}
{{- range $number, $_ := $values.rulePacks.configMaps }}
- {name: rules-{{ $number }}, mountPath: /etc/epicenter/rules/{{ $number }}, readOnly: true}
{{- end }}
{{- range .config }}
{{- $one := index $values . }}
{{- if or $one.file $one.configMap }}
- {name: {{ . }}, mountPath: /etc/epicenter/{{ . }}, readOnly: true}
{{- end }}
{{- end }}
{{- end }}

{{- define "epicenter.configVolumes" -}}
{{- $fullname := include "epicenter.fullname" .root }}
{{- $values := .root.Values }}
{{- if $values.rulePacks.files }}
- name: rules
  configMap: {name: {{ $fullname }}-rules}
{{- end }}
{{- range $number, $name := $values.rulePacks.configMaps }}
- name: rules-{{ $number }}
  configMap: {name: {{ $name | quote }}}
{{- end }}
{{- with $values.topology }}
{{- if or .file .configMap }}
- name: topology
  configMap:
    name: {{ .configMap | default (printf "%s-topology" $fullname) | quote }}
    items: [{key: topology.yaml, path: topology.yaml}]
{{- end }}
{{- end }}
{{- with $values.alerts }}
{{- if and (has "alerts" $.config) (or .file .configMap) }}
- name: alerts
  projected:
    defaultMode: 0440
    sources:
      - configMap:
          name: {{ .configMap | default (printf "%s-alerts" $fullname) | quote }}
          items: [{key: alerts.yaml, path: alerts.yaml}]
      {{- with .secret }}
      - secret: {name: {{ . | quote }}}
      {{- end }}
{{- end }}
{{- end }}
{{- end }}
