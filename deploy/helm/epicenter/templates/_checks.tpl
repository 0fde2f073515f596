{{- /* Checks that the schema can't express. All problems are shown at once. */}}
{{- define "epicenter.checks" -}}
{{- $problems := list }}
{{- $kafka := .Values.kafka }}
{{- if not (regexMatch "^[a-z]" .Release.Name) }}
{{- $problems = append $problems (printf "release %s: Services are named after it: write a name that begins with a letter" .Release.Name) }}
{{- end }}
{{- if not $kafka.brokers }}
{{- $problems = append $problems "kafka.brokers: no broker: write host:port, several separated by commas" }}
{{- end }}
{{- if not .Values.secrets.worker }}
{{- $problems = append $problems "secrets.worker: name a Secret with the keys store and web_token" }}
{{- end }}
{{- if and .Values.migrate.tables (not .Values.secrets.migrate) }}
{{- $problems = append $problems "secrets.migrate: name a Secret with the key store, or set migrate.tables=false" }}
{{- end }}
{{- if and .Values.page.enabled (not .Values.secrets.page) }}
{{- $problems = append $problems "secrets.page: the page listens beyond the loopback, so it needs a token: name a Secret with the keys store and page_token, or set page.enabled=false" }}
{{- end }}
{{- if gt (int .Values.worker.replicas) (int $kafka.rawPartitions) }}
{{- $problems = append $problems (printf "worker.replicas: %d are more than kafka.rawPartitions (%d): workers beyond the partitions have nothing to read" (int .Values.worker.replicas) (int $kafka.rawPartitions)) }}
{{- end }}
{{- with .Values.keda }}
{{- if .enabled }}
{{- $most := .maxReplicas | default $kafka.rawPartitions | int }}
{{- if gt $most (int $kafka.rawPartitions) }}
{{- $problems = append $problems (printf "keda.maxReplicas: %d are more than kafka.rawPartitions (%d)" $most (int $kafka.rawPartitions)) }}
{{- end }}
{{- if gt (int .minReplicas) $most }}
{{- $problems = append $problems (printf "keda.minReplicas: %d are more than the maximum, %d" (int .minReplicas) $most) }}
{{- end }}
{{- end }}
{{- end }}
{{- if hasPrefix "sasl_" $kafka.security }}
{{- $users := list "worker" }}
{{- if .Values.migrate.topics }}{{ $users = append $users "topics" }}{{ end }}
{{- if .Values.shipper.enabled }}{{ $users = append $users "shipper" }}{{ end }}
{{- range $users }}
{{- $user := index $kafka.users . }}
{{- if not (and $user.name $user.secret) }}
{{- $problems = append $problems (printf "kafka.users.%s: kafka.security is %s: write name, and secret with its password" . $kafka.security) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (not (hasSuffix "ssl" $kafka.security)) (or $kafka.ca.secret $kafka.certificate.secret) }}
{{- $problems = append $problems (printf "kafka.ca, kafka.certificate: not used with kafka.security=%s: write ssl or sasl_ssl" $kafka.security) }}
{{- end }}
{{- range list "topology" "alerts" }}
{{- $one := index $.Values . }}
{{- if and $one.file $one.configMap }}
{{- $problems = append $problems (printf "%s: file and configMap are both set: leave one out" .) }}
{{- end }}
{{- end }}
{{- if and .Values.alerts.secret (not (or .Values.alerts.file .Values.alerts.configMap)) }}
{{- $problems = append $problems "alerts.secret: there is no alerts file that uses it: set alerts.file or alerts.configMap, or leave it out" }}
{{- end }}
{{- if $problems }}{{ fail (printf "\n  %s" (join "\n  " $problems)) }}{{ end }}
{{- end }}
