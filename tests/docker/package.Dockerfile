# The Debian package on a machine that has nothing of it, for tests/docker/test_package.py. `roco:build` is the first stage of
# docker/Dockerfile.
FROM roco:build AS build
RUN apt-get update && apt-get install -y --no-install-recommends dpkg-dev file && \
    cmake -B /build -DCMAKE_INSTALL_PREFIX=/usr && cmake --build /build && cd /build && cpack

FROM debian:bookworm-slim
COPY --from=build /build/roco_*.deb /
RUN apt-get update && apt-get install -y --no-install-recommends /roco_*.deb
