# For machines that Triton has no wheel for: the same two commands in a Linux container.
#   docker build -t tilewright .
#   docker run --rm -v "$PWD":/work tilewright explain mykernel.py:kernel --args '...' --grid 32
FROM python:3.12-slim
RUN apt-get update && apt-get install -y --no-install-recommends make gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/tilewright
COPY . .
RUN pip install --no-cache-dir 'triton==3.6.0' .
WORKDIR /work
ENTRYPOINT ["tilewright"]
