# Debian's Prometheus under the conventions of the image that docker/compose.yaml names, for tests that reach no registry.
FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends prometheus && mkdir -p /prometheus && chown nobody /prometheus
USER nobody
ENTRYPOINT ["/usr/bin/prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
