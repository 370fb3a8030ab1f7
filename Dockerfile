# Pregão with the lake, the page and charts, without Spark and Java.
FROM python:3.13-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir --prefix=/installed ".[lake,live,plot,ui]"

FROM python:3.13-slim
COPY --from=build /installed /usr/local
RUN useradd --create-home pregao && mkdir /data && chown pregao /data
USER pregao
# Compiled kernels are cached with the data.
ENV PREGAO_CACHE_DIR=/data/cache
WORKDIR /data
VOLUME /data
ENTRYPOINT ["pregao"]
CMD ["--help"]
