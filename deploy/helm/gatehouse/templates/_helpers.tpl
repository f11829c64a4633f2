{{- define "gatehouse.name" -}}
{{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "gatehouse.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "gatehouse.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "gatehouse.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "gatehouse.selector" -}}
app.kubernetes.io/name: {{ include "gatehouse.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gatehouse.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "gatehouse.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "gatehouse.metadata" -}}
name: {{ include "gatehouse.fullname" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "gatehouse.labels" . | nindent 2 }}
{{- end }}

{{- define "gatehouse.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "gatehouse.fullname" .) }}
{{- end }}

{{- define "gatehouse.image" -}}
{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* The configuration as it is mounted: that of the values, with what the chart mounts beside it. */}}
{{- define "gatehouse.config" -}}
{{- $config := deepCopy .Values.config }}
{{- if and .Values.tls.existingSecret (not $config.tls) }}
{{- $_ := set $config "tls" (dict "cert_file" "/run/secrets/gatehouse-tls/tls.crt" "key_file" "/run/secrets/gatehouse-tls/tls.key") }}
{{- end }}
{{- if and .Values.discovery.enabled (not $config.include) }}
{{- $_ := set $config "include" (list "/discovered/*.yaml") }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{- define "gatehouse.configMap" -}}
{{- $name := include "gatehouse.fullname" . }}
{{- if .Values.configRollout }}
{{- printf "%s-%s" ($name | trunc 52 | trimSuffix "-") (include "gatehouse.config" . | sha256sum | trunc 10) }}
{{- else }}
{{- $name }}
{{- end }}
{{- end }}

{{- /* The port of an address such as ":8080". */}}
{{- define "gatehouse.port" -}}
{{- $port := regexFind "[0-9]+$" (. | toString) }}
{{- if not $port }}{{ fail (printf "config: %q names no port: in a pod, listen to one, such as \":8080\"" (. | toString)) }}{{ end }}
{{- $port }}
{{- end }}

{{- /* The host of config.public_url. */}}
{{- define "gatehouse.host" -}}
{{- regexReplaceAll ":[0-9]+$" (get (urlParse (.Values.config.public_url | default "https://mcp.example.com/mcp")) "host") "" }}
{{- end }}

{{- define "gatehouse.adminScheme" -}}
{{- if .Values.config.admin.tls }}HTTPS{{ end }}
{{- end }}

{{- /* Other labels than those of the pods, which the Service and the policies select. */}}
{{- define "gatehouse.checkLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "gatehouse.name" . }}-check
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* A container that discovers; "once" for the one that ends. */}}
{{- define "gatehouse.discover" -}}
{{- $values := .root.Values -}}
image: {{ include "gatehouse.image" .root }}
{{- with $values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
args:
  - discover
  - --dir
  - /discovered
  {{- with $values.discovery.namespace }}
  - --namespace
  - {{ . }}
  {{- end }}
  {{- if .once }}
  - --once
  {{- end }}
resources:
  {{- toYaml $values.discovery.resources | nindent 2 }}
securityContext:
  {{- toYaml $values.securityContext | nindent 2 }}
volumeMounts:
  - {name: discovered, mountPath: /discovered}
  - {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- end }}
