{{- define "contrailmq.name" -}}
{{- printf "%s-contrailmq" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "contrailmq.labels" -}}
app.kubernetes.io/name: contrailmq
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "contrailmq.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* The name of the pods of a service, but for the pod's own name in front. */}}
{{- define "contrailmq.domain" -}}
{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end -}}

{{- define "contrailmq.namesrvAddr" -}}
{{- $name := include "contrailmq.name" . -}}
{{- $domain := include "contrailmq.domain" . -}}
{{- range $number := until (int .Values.namesrv.replicas) -}}
{{- if $number }};{{ end -}}
{{ $name }}-namesrv-{{ $number }}.{{ $name }}-namesrv-pods.{{ $domain }}:9876
{{- end -}}
{{- end -}}

{{- define "contrailmq.controllerAddr" -}}
{{- $name := include "contrailmq.name" . -}}
{{- $domain := include "contrailmq.domain" . -}}
{{- range $number := until (int .Values.controller.replicas) -}}
{{- if $number }};{{ end -}}
{{ $name }}-controller-{{ $number }}.{{ $name }}-controller-pods.{{ $domain }}:9878
{{- end -}}
{{- end -}}

{{/* Keys of every server that clients reach. */}}
{{- define "contrailmq.serverKeys" -}}
bindAddress=0.0.0.0
metricsExporterType=PROM
metricsPromExporterHost=0.0.0.0
metricsPromExporterPort={{ .Values.metrics.port }}
{{- if .Values.accounts.existingSecret }}
aclEnable=true
{{- end }}
{{- if .Values.tls.existingSecret }}
tls.server.mode={{ .Values.tls.mode }}
tls.server.certPath=/etc/contrailmq-tls/tls.crt
tls.server.keyPath=/etc/contrailmq-tls/tls.key
tls.enable=true
tls.client.authServer=true
tls.client.trustCertPath=/etc/contrailmq-tls/ca.crt
{{- end }}
{{- end -}}

{{- define "contrailmq.podSettings" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10911
  runAsGroup: 10911
  fsGroup: 10911
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "contrailmq.containerSettings" -}}
image: {{ include "contrailmq.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "contrailmq.probes" -}}
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{/* Recovery of a large store takes its time before the port is open. */}}
{{- define "contrailmq.startupProbe" -}}
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 2
  failureThreshold: 900
{{- end -}}

{{- define "contrailmq.volumeMounts" -}}
- {name: settings, mountPath: /etc/contrailmq, readOnly: true}
- {name: scratch, mountPath: /tmp}
{{- if .Values.tls.existingSecret }}
- {name: tls, mountPath: /etc/contrailmq-tls, readOnly: true}
{{- end }}
{{- end -}}

{{/* plain_acl.yml lies beside the settings: servers look for it there. */}}
{{- define "contrailmq.volumes" -}}
- name: settings
  projected:
    sources:
      - configMap: {name: {{ include "contrailmq.name" . }}-settings}
{{- if .Values.accounts.existingSecret }}
      - secret:
          name: {{ .Values.accounts.existingSecret }}
          items: [{key: plain_acl.yml, path: plain_acl.yml}]
{{- end }}
- name: scratch
  emptyDir: {sizeLimit: 64Mi}
{{- if .Values.tls.existingSecret }}
- name: tls
  secret: {secretName: {{ .Values.tls.existingSecret }}, defaultMode: 0440}
{{- end }}
{{- end -}}
