# rlreplay on Debian 12: docker build -t rlreplay . && docker run --rm -v "$PWD:/work" rlreplay show dump/
# scripts/check_dockerfile runs these lines without Docker.
FROM debian:bookworm-slim AS build
WORKDIR /source
COPY . .
RUN scripts/setup --programs
RUN cmake --preset programs && cmake --build --preset programs
RUN scripts/package build/programs /package

FROM debian:bookworm-slim
COPY --from=build /package /package
RUN apt-get update && \
    apt-get install -y --no-install-recommends git /package/*.deb && \
    rm -rf /var/lib/apt/lists/* /package
RUN rlreplay --version && rlbisect --version
WORKDIR /work
ENTRYPOINT ["rlreplay"]
CMD ["--help"]
