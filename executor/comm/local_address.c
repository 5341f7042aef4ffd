#include "executor/comm/communicator.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A connection to itself whose listening side closes first stays in TIME_WAIT for a minute. As long as it does, the
 * kernel gives the port to nobody who asks for any port, while who asks for this one, with SO_REUSEADDR, gets it. A
 * port that is merely bound and closed again may be some connection's by the time that rank 0 listens. */
static bool reserve(int listener, int caller, struct sockaddr_in *in)
{
    const int on = 1;
    socklen_t size = sizeof *in;
    if (listener < 0 || caller < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(listener, (const struct sockaddr *)in, size) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)in, &size) != 0 ||
        connect(caller, (const struct sockaddr *)in, size) != 0) {
        return false;
    }
    const int accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    return accepted >= 0 && close(accepted) == 0;
}

redco_status redco_local_address(char address_out[REDCO_LOCAL_ADDRESS_SIZE], redco_error *err)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int caller = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool reserved = reserve(listener, caller, &in);
    const int why = errno;
    if (caller >= 0) { (void)close(caller); }
    if (listener >= 0) { (void)close(listener); }
    if (!reserved) { return redco_fail(err, REDCO_ESYSTEM, "127.0.0.1", "no port for rank 0: %s", strerror(why)); }
    (void)snprintf(address_out, REDCO_LOCAL_ADDRESS_SIZE, "127.0.0.1:%u", ntohs(in.sin_port));
    return REDCO_OK;
}
