FROM python:3.13-slim AS build
WORKDIR /source
COPY . .
RUN python -m venv /opt/carrel \
    && /opt/carrel/bin/pip install --no-cache-dir --constraint constraints.txt .

FROM python:3.13-slim
RUN useradd --create-home --uid 1000 carrel \
    && install --directory --owner carrel --group carrel /home/carrel/.carrel
COPY --from=build /opt/carrel /opt/carrel
ENV PATH=/opt/carrel/bin:$PATH \
    CARREL_BIND=0.0.0.0
USER 1000
WORKDIR /home/carrel
VOLUME /home/carrel/.carrel
EXPOSE 8080
HEALTHCHECK --start-period=90s --timeout=10s CMD \
    ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/health')"]
# At 0.0.0.0, Carrel does not start without --sign-in.
CMD ["carrel", "up", "--sign-in", "--no-sample"]
