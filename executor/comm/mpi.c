#include "executor/comm/transport.h"
#include "topology/base/clock.h"

#include <mpi.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* MPI polls while it waits; a nap between two looks leaves the processor to those who compute. */
static const long nap_ns = 50000;
/* MPI counts in int. */
static const size_t message_bytes = (size_t)1 << 30;

struct mpi {
    double timeout_s;
    int rank, size;
    MPI_Comm notes;     /* for ranks that fail; MPI_COMM_NULL before */
    unsigned char note; /* this rank's note */
    bool ours;          /* MPI was started here */
    atomic_bool aborted;
};

struct ring {
    const struct mpi *mpi;
    MPI_Comm comm;
    int next, previous;
};

static redco_status failed(int code, const char *what, redco_error *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    (void)MPI_Error_string(code, text, &length);
    return redco_fail(err, REDCO_ESYSTEM, what, "MPI: %s", text);
}

/* Both messages of a step, without blocking, so that a rank may wait for a peer that died only as long as it wants to.
 */
static redco_status step(const struct ring *ring, const redcoi_exchange *x, size_t at, redco_error *err)
{
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    const size_t in = x->receive_bytes > at ? x->receive_bytes - at : 0,
                 out = x->send_bytes > at ? x->send_bytes - at : 0;
    const struct timespec nap = {.tv_nsec = nap_ns};
    const double start_s = redco_now_s();
    int done = 0, code = MPI_SUCCESS;
    if (in > 0) {
        code = MPI_Irecv((char *)x->receive + at, (int)(in < message_bytes ? in : message_bytes), MPI_BYTE,
                         ring->previous, 0, ring->comm, &requests[0]);
    }
    if (out > 0 && code == MPI_SUCCESS) {
        code = MPI_Isend((const char *)x->send + at, (int)(out < message_bytes ? out : message_bytes), MPI_BYTE,
                         ring->next, 0, ring->comm, &requests[1]);
    }
    while (code == MPI_SUCCESS) {
        code = MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
        if (code != MPI_SUCCESS || done) { break; }
        if (atomic_load(&ring->mpi->aborted)) {
            return redco_fail(err, REDCO_ESYSTEM, x->what, "rank %d has given up", ring->mpi->rank);
        }
        if (redco_now_s() - start_s > ring->mpi->timeout_s) {
            return redco_fail(err, REDCO_ESYSTEM, x->what,
                              "rank %d: nothing from rank %d or to rank %d of its group for %g s", ring->mpi->rank,
                              ring->previous, ring->next, ring->mpi->timeout_s);
        }
        (void)nanosleep(&nap, NULL);
    }
    return code == MPI_SUCCESS ? REDCO_OK : failed(code, x->what, err);
}

static redco_status mpi_exchange(void *link, const redcoi_exchange *exchange, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (size_t at = 0; (at < exchange->send_bytes || at < exchange->receive_bytes) && st == REDCO_OK;
         at += message_bytes) {
        st = step(link, exchange, at, err);
    }
    return st;
}

static void mpi_abort(void *transport)
{
    struct mpi *const mpi = transport;
    atomic_store(&mpi->aborted, true);
}

static void mpi_unlink(void *link)
{
    struct ring *const ring = link;
    (void)MPI_Comm_free(&ring->comm);
    free(ring);
}

static redco_status mpi_link(void *transport, const redcoi_members *members, uint32_t sequence, void **link_out,
                             redco_error *err)
{
    (void)sequence; /* MPI matches collective calls by their order */
    struct ring *const ring = calloc(1, sizeof *ring);
    if (ring == NULL) { return redco_fail(err, REDCO_ENOMEM, "MPI", "out of memory"); }
    ring->mpi = transport;
    ring->next = (int)((members->own + 1) % members->size);
    ring->previous = (int)((members->own + members->size - 1) % members->size);
    const int code = MPI_Comm_split(MPI_COMM_WORLD, (int)members->ranks[0], (int)members->own, &ring->comm);
    if (code != MPI_SUCCESS) {
        free(ring);
        return failed(code, "MPI_Comm_split", err);
    }
    (void)MPI_Comm_set_errhandler(ring->comm, MPI_ERRORS_RETURN);
    *link_out = ring;
    return REDCO_OK;
}

/* The time that ranks that fail wait for word from the others. */
static const double farewell_s = 1.0;

/* Notes that have come. @param said  of each rank: 1 failed itself, 2 is broken; @return how many came */
static int take_notes(const struct mpi *mpi, unsigned char *said)
{
    int come = 0, there = 1;
    MPI_Status status;
    while (MPI_Iprobe(MPI_ANY_SOURCE, 0, mpi->notes, &there, &status) == MPI_SUCCESS && there) {
        unsigned char note = 0;
        if (MPI_Recv(&note, 1, MPI_BYTE, status.MPI_SOURCE, 0, mpi->notes, MPI_STATUS_IGNORE) != MPI_SUCCESS) { break; }
        said[status.MPI_SOURCE] = note;
        come++;
    }
    return come;
}

/* The first rank that failed itself, else the first that was heard. */
static void choose(const struct mpi *mpi, const unsigned char *said, redco_farewell *farewell)
{
    int speaker = mpi->size;
    for (int rank = mpi->size; rank-- > 0;) {
        if (said[rank] == 0) { farewell->missing = (uint32_t)rank; }
        if (said[rank] == 2 && (speaker == mpi->size || said[speaker] == 2)) { speaker = rank; }
        if (said[rank] == 1) { speaker = rank; }
    }
    farewell->speaks = speaker == mpi->rank;
}

static void mpi_part(void *transport, redco_farewell *farewell)
{
    struct mpi *const mpi = transport;
    const struct timespec nap = {.tv_nsec = nap_ns};
    const double start_s = redco_now_s();
    unsigned char *const said = calloc((size_t)mpi->size, 1);
    MPI_Request *const sent = malloc((size_t)mpi->size * sizeof(MPI_Request));
    if (said == NULL || sent == NULL) { /* then this one speaks, too */
        farewell->closes = false;
        goto out;
    }
    mpi->note = farewell->broken ? 2 : 1;
    said[mpi->rank] = mpi->note;
    for (int rank = 0; rank < mpi->size; rank++) {
        sent[rank] = MPI_REQUEST_NULL;
        if (rank != mpi->rank) { (void)MPI_Isend(&mpi->note, 1, MPI_BYTE, rank, 0, mpi->notes, &sent[rank]); }
    }
    int come = 1, gone = 0, code = MPI_SUCCESS;
    while ((come < mpi->size || !gone) && redco_now_s() - start_s < farewell_s && code == MPI_SUCCESS) {
        come += take_notes(mpi, said);
        code = MPI_Testall(mpi->size, sent, &gone, MPI_STATUSES_IGNORE);
        (void)nanosleep(&nap, NULL);
    }
    choose(mpi, said, farewell);
    farewell->closes = come == mpi->size && gone && !farewell->broken;
out:
    free(said);
    free(sent);
}

/* The one who speaks ends all; should it not come to that, the others do, a little later. */
static void mpi_give_up(void *transport, int code)
{
    (void)transport;
    (void)MPI_Abort(MPI_COMM_WORLD, code);
}

static void mpi_close(void *transport)
{
    struct mpi *const mpi = transport;
    if (mpi->notes != MPI_COMM_NULL) { (void)MPI_Comm_free(&mpi->notes); }
    if (mpi->ours) { (void)MPI_Finalize(); }
    free(mpi);
}

static const redcoi_transport_calls calls = {mpi_link, mpi_exchange, mpi_abort, mpi_unlink,
                                             mpi_part, mpi_give_up,  mpi_close};

redco_status redcoi_mpi_open(double timeout_s, redcoi_transport *transport_out, redco_error *err)
{
    int started = 0, level = MPI_THREAD_MULTIPLE, rank = 0, size = 1, code = MPI_Initialized(&started);
    struct mpi *const mpi = calloc(1, sizeof *mpi);
    if (mpi == NULL) { return redco_fail(err, REDCO_ENOMEM, "MPI", "out of memory"); }
    mpi->timeout_s = timeout_s;
    mpi->ours = !started;
    mpi->notes = MPI_COMM_NULL;
    if (code == MPI_SUCCESS) {
        code = started ? MPI_Query_thread(&level) : MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    }
    if (code == MPI_SUCCESS) { code = MPI_Comm_rank(MPI_COMM_WORLD, &rank); }
    if (code == MPI_SUCCESS) { code = MPI_Comm_size(MPI_COMM_WORLD, &size); }
    if (code == MPI_SUCCESS) { code = MPI_Comm_dup(MPI_COMM_WORLD, &mpi->notes); }
    if (code != MPI_SUCCESS || level < MPI_THREAD_MULTIPLE || size > REDCO_WORLD_MAX) {
        const redco_status st =
            code != MPI_SUCCESS ? failed(code, "MPI", err)
            : level < MPI_THREAD_MULTIPLE
                ? redco_fail(err, REDCO_ESYSTEM, "MPI", "this MPI lets only one thread call it; overlap needs several")
                : redco_fail(err, REDCO_EVALUE, "MPI", "%d ranks; at most %d are handled", size, REDCO_WORLD_MAX);
        mpi_close(mpi);
        return st;
    }
    (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    (void)MPI_Comm_set_errhandler(mpi->notes, MPI_ERRORS_RETURN);
    mpi->rank = rank;
    mpi->size = size;
    *transport_out = (redcoi_transport){&calls, mpi, (uint32_t)rank, (uint32_t)size};
    return REDCO_OK;
}
