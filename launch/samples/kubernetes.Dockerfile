# The image of launch/samples/kubernetes.yaml: tp-infer, and an SSH server through which mpirun starts ranks in other pods.
# Not tried on a cluster. From the folder of the sources:
#   docker build -t tp-infer-mpi -f launch/samples/kubernetes.Dockerfile .
FROM debian:12 AS build
COPY launch/common.sh /src/launch/
RUN bash -c 'source /src/launch/common.sh && install_packages "${build_packages[@]}"'
COPY . /src
RUN cmake -S /src -B /build -G Ninja -DTP_UNITY=ON -DTP_BUILD_TESTS=OFF -DTP_BUILD_BENCHMARKS=OFF && \
    cmake --build /build && cmake --install /build --prefix /opt/tp-infer --strip

FROM debian:12-slim
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      openmpi-bin openssh-client openssh-server libopenblas0-openmp libboost-serialization1.74.0 libfmt9 libpcre2-8-0 \
      libutf8proc2 libsentencepiece0 libhwloc15 libgomp1 libedit2 libcurl4 libssl3 ca-certificates && \
    rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/tp-infer /usr/local
# The user's keys are mounted by the operator with more permissions than sshd accepts unless StrictModes is off, and pods
# have new host keys each time. Without root sshd listens on a port from 1024 on.
RUN useradd --create-home --uid 1000 mpiuser && \
    printf 'Host *\n  Port 2222\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n' \
      >/etc/ssh/ssh_config.d/mpi.conf && \
    printf 'Port 2222\nStrictModes no\nUsePAM no\nPidFile none\nHostKey /home/mpiuser/host_key\n' >/home/mpiuser/sshd_config && \
    chown mpiuser /home/mpiuser/sshd_config
USER mpiuser
WORKDIR /home/mpiuser
# The command of workers; each creates its own host key.
CMD ["bash", "-c", "ssh-keygen -q -t ed25519 -N '' -f host_key <<<y && exec /usr/sbin/sshd -De -f sshd_config"]
