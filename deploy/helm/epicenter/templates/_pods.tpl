{{- define "epicenter.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "epicenter.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* What all our pods have in common. Service links would set EPICENTER_PAGE_PORT and others to addresses. Each process
stops within ten seconds of SIGTERM. */}}
{{- define "epicenter.podBasics" -}}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: 15
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
securityContext:
  {{- include "epicenter.podSecurity" . | nindent 2 }}
{{- end }}

{{- define "epicenter.placement" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "epicenter.spread" -}}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "epicenter.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}

{{- /* /livez answers as long as the process does. Leave a worker that is not ready alone: it can't fetch, and a new one
would wait for the broker too, and start from its newest snapshot. A worker that does not answer for two minutes hangs;
by then its group has given its partitions to others. */}}
{{- define "epicenter.alive" -}}
httpGet: {path: /livez, port: {{ . }}}
{{- end }}

{{- define "epicenter.env" -}}
- {name: EPICENTER_SECRETS_DIR, value: /run/secrets/epicenter}
- {name: EPICENTER_DATA_DIR, value: /var/lib/epicenter}
{{- range $name, $value := .Values.settings }}
- {name: EPICENTER_{{ upper $name }}, value: {{ toJson $value | trimAll "\"" | quote }}}
{{- end }}
{{- end }}

{{- define "epicenter.kafkaEnv" -}}
{{- $kafka := .root.Values.kafka }}
{{- $user := index $kafka.users .user }}
- {name: EPICENTER_KAFKA, value: {{ $kafka.brokers | quote }}}
- {name: EPICENTER_RAW_TOPIC, value: {{ $kafka.rawTopic | quote }}}
- {name: EPICENTER_PREFIX, value: {{ $kafka.prefix | quote }}}
- {name: EPICENTER_KAFKA_SECURITY, value: {{ $kafka.security }}}
{{- if hasPrefix "sasl_" $kafka.security }}
- {name: EPICENTER_KAFKA_SASL_MECHANISM, value: {{ $kafka.mechanism }}}
- {name: EPICENTER_KAFKA_USERNAME, value: {{ $user.name | quote }}}
{{- end }}
{{- if $kafka.ca.secret }}
- {name: EPICENTER_KAFKA_CA, value: /etc/epicenter/kafka/ca.crt}
{{- end }}
{{- if $kafka.certificate.secret }}
- {name: EPICENTER_KAFKA_CERT, value: /etc/epicenter/kafka/client.crt}
- {name: EPICENTER_KAFKA_KEY, value: /etc/epicenter/kafka/client.key}
{{- end }}
{{- end }}

{{- /* The secret settings, each in a file named like the setting. */}}
{{- define "epicenter.secretsVolume" -}}
{{- $kafka := .root.Values.kafka }}
{{- $sources := list }}
{{- if .secret }}
{{- $items := list }}
{{- range .keys }}{{ $items = append $items (dict "key" . "path" .) }}{{ end }}
{{- $sources = append $sources (dict "secret" (dict "name" .secret "items" $items)) }}
{{- end }}
{{- if and .user (hasPrefix "sasl_" $kafka.security) }}
{{- with index $kafka.users .user }}
{{- $password := dict "key" .key "path" "kafka_password" }}
{{- $sources = append $sources (dict "secret" (dict "name" .secret "items" (list $password))) }}
{{- end }}
{{- end }}
- name: {{ .name | default "secrets" }}
  projected:
    defaultMode: 0440
    sources:
      {{- toYaml $sources | nindent 6 }}
{{- end }}

{{- define "epicenter.kafkaVolume" -}}
{{- with .Values.kafka }}
{{- if or .ca.secret .certificate.secret }}
- name: kafka
  projected:
    defaultMode: 0440
    sources:
      {{- with .ca }}
      {{- if .secret }}
      - secret:
          name: {{ .secret | quote }}
          items:
            - {key: {{ .key | quote }}, path: ca.crt}
      {{- end }}
      {{- end }}
      {{- with .certificate }}
      {{- if .secret }}
      - secret:
          name: {{ .secret | quote }}
          items:
            - {key: {{ .certKey | quote }}, path: client.crt}
            - {key: {{ .keyKey | quote }}, path: client.key}
      {{- end }}
      {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "epicenter.kafkaMount" -}}
{{- if or .Values.kafka.ca.secret .Values.kafka.certificate.secret }}
- {name: kafka, mountPath: /etc/epicenter/kafka, readOnly: true}
{{- end }}
{{- end }}

{{- define "epicenter.storeVolume" -}}
{{- with .Values.store.ca }}
{{- if .secret }}
- name: store-ca
  secret:
    secretName: {{ .secret | quote }}
    defaultMode: 0440
    items:
      - {key: {{ .key | quote }}, path: ca.crt}
{{- end }}
{{- end }}
{{- end }}

{{- define "epicenter.storeMount" -}}
{{- if .Values.store.ca.secret }}
- {name: store-ca, mountPath: /etc/epicenter/store, readOnly: true}
{{- end }}
{{- end }}

{{- define "epicenter.ourVolumes" -}}
- name: data
  emptyDir: {sizeLimit: 1Gi}
- name: tmp
  emptyDir: {sizeLimit: 256Mi}
{{- end }}

{{- define "epicenter.ourMounts" -}}
- {name: {{ .name | default "secrets" }}, mountPath: /run/secrets/epicenter, readOnly: true}
- {name: data, mountPath: /var/lib/epicenter}
- {name: tmp, mountPath: /tmp}
{{- end }}
