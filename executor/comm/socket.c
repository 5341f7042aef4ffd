#include "executor/comm/socket.h"
#include "topology/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

int redcoi_socket_wait(int fd, short events, double deadline_s)
{
    struct pollfd poll_fd = {.fd = fd, .events = events};
    for (;;) {
        const double left_s = deadline_s - redco_now_s();
        const int ready = left_s > 0.0 ? poll(&poll_fd, 1, (int)(left_s * 1e3) + 1) : 0;
        if (ready >= 0 || errno != EINTR) { return ready; }
    }
}

/* Shared by both directions: moves the rest of a message, waiting where it must. */
static bool transfer(int fd, char *data, size_t size, bool write, double deadline_s)
{
    size_t at = 0;
    while (at < size) {
        const ssize_t moved = write ? send(fd, data + at, size - at, MSG_NOSIGNAL) : recv(fd, data + at, size - at, 0);
        if (moved > 0) {
            at += (size_t)moved;
        } else if (moved == 0) {
            errno = 0;
            return false;
        } else if (errno == EAGAIN) {
            const int ready = redcoi_socket_wait(fd, write ? POLLOUT : POLLIN, deadline_s);
            if (ready == 0) { errno = ETIMEDOUT; }
            if (ready <= 0) { return false; }
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

bool redcoi_socket_write(int fd, const void *data, size_t size, double deadline_s)
{
    return transfer(fd, (char *)(uintptr_t)data, size, true, deadline_s);
}

bool redcoi_socket_read(int fd, void *data, size_t size, double deadline_s)
{
    return transfer(fd, data, size, false, deadline_s);
}

const char *redcoi_socket_reason(int error)
{
    switch (error) {
    case 0:
    case EPIPE:
    case ECONNRESET: return "closed the connection";
    case ETIMEDOUT: return "was not heard of in time";
    default: return strerror(error);
    }
}

bool redcoi_socket_prepare(int fd)
{
    const int on = 1, flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
           setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0;
}

int redcoi_socket_listen(const redcoi_door *door)
{
    const int on = 1;
    const int fd = socket(door->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) { return -1; }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd, (const struct sockaddr *)&door->address, door->length) == 0 && listen(fd, 4096) == 0) {
        return fd;
    }
    const int error = errno;
    (void)close(fd);
    errno = error;
    return -1;
}

redcoi_secret redcoi_secret_of(const redcoi_sockets *world)
{
    return (redcoi_secret){world->secret, world->secret_bytes};
}
