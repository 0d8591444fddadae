{{- define "roco.selector" -}}
app.kubernetes.io/name: roco
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "roco.labels" -}}
{{ include "roco.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
{{- define "roco.scheme" -}}
{{ if .Values.tls.existingSecret }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}
{{/* Everything roco is told, as its variables: a later one of the same name would be an error of the values. */}}
{{- define "roco.environment" -}}
{{- range $name, $value := .Values.options }}
- {name: ROCO_{{ $name | upper | replace "-" "_" }}, value: {{ if kindIs "float64" $value }}{{ printf "%.0f" $value | quote }}{{ else }}{{ $value | toString | quote }}{{ end }}}
{{- end }}
- {name: ROCO_MODEL, value: {{ printf "/models/%s" .Values.model.file | quote }}}
- {name: ROCO_DRAIN_TIMEOUT, value: {{ .Values.drainTimeout | toString | quote }}}
- {name: ROCO_METRICS_ALIASES, value: {{ .Values.metricsAliases | quote }}}
{{- if .Values.apiKeys.existingSecret }}
- {name: ROCO_API_KEY_FILE, value: /etc/roco/keys/keys}
{{- end }}
{{- if .Values.tls.existingSecret }}
- {name: ROCO_TLS_CERT, value: /etc/roco/tls/tls.crt}
- {name: ROCO_TLS_KEY, value: /etc/roco/tls/tls.key}
{{- end }}
{{- end }}
