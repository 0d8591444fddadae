/* A bucket's first step runs as it comes, which loads the code of all its kernels; its second one is recorded; from the
 * third on the graph runs. A device that cannot record says so once and goes on without. */
#include "kernels/cuda/graphs.h"

#include "config/log.h"

#include <stdlib.h>

/* Kept at once; the one that has rested longest goes. */
#define MOST_GRAPHS 64u

typedef struct recording {
    roco_cuda_bucket bucket; /* rows 0: an empty place */
    roco_gpu_graph *graph;   /* NULL after the bucket's first step */
    uint64_t used;           /* number of the step that used it last */
} recording;

struct roco_cuda_graphs {
    recording all[MOST_GRAPHS];
    recording *under_way; /* NULL: nothing is being recorded */
    uint64_t n_steps;
    bool unable;
};

roco_status roco_cuda_graphs_open(roco_cuda *cuda, roco_error *error)
{
    cuda->graphs = calloc(1, sizeof *cuda->graphs);
    return cuda->graphs != NULL ? ROCO_OK : roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for graphs");
}

static void forget(roco_cuda *cuda, recording *r)
{
    roco_gpu_graph_close(cuda->gpu, r->graph);
    *r = (recording){.graph = NULL};
}

static void forget_all(roco_cuda *cuda)
{
    for (uint32_t i = 0; i < MOST_GRAPHS; i++)
        forget(cuda, &cuda->graphs->all[i]);
}

void roco_cuda_graphs_close(roco_cuda *cuda)
{
    if (cuda->graphs == NULL)
        return;
    forget_all(cuda);
    free(cuda->graphs);
    cuda->graphs = NULL;
}

static bool is_of(const recording *r, roco_cuda_bucket bucket)
{
    return r->bucket.rows == bucket.rows && r->bucket.columns == bucket.columns && r->bucket.ranked == bucket.ranked;
}

/* The bucket's place, or else the one that has rested longest, whose recording is not the bucket's. */
static recording *find(roco_cuda_graphs *g, roco_cuda_bucket bucket)
{
    recording *oldest = &g->all[0];
    for (uint32_t i = 0; i < MOST_GRAPHS; i++) {
        recording *r = &g->all[i];
        if (is_of(r, bucket))
            return r;
        if (r->used < oldest->used)
            oldest = r;
    }
    return oldest;
}

static void start_recording(roco_cuda *cuda, recording *r)
{
    if (roco_gpu_graph_begin(cuda->gpu))
        cuda->graphs->under_way = r;
}

uint32_t roco_cuda_begin(roco_backend *backend, const roco_step_tables *step)
{
    roco_cuda *cuda = roco_cuda_of(backend);
    roco_cuda_graphs *g = cuda->graphs;
    bool moved;
    const roco_cuda_bucket bucket = roco_cuda_tables_fill(cuda, step, &moved);
    ROCO_CHECK(g->under_way == NULL);
    if (moved)
        forget_all(cuda); /* they read where the tables were */
    if (bucket.rows > 0 && !g->unable) {
        recording *r = find(g, bucket);
        const bool seen = is_of(r, bucket);
        if (!seen)
            forget(cuda, r);
        r->bucket = bucket;
        r->used = ++g->n_steps;
        if (r->graph != NULL) {
            roco_gpu_graph_run(cuda->gpu, r->graph);
            return 0;
        }
        if (seen)
            start_recording(cuda, r);
    }
    roco_cuda_tables_copy(cuda);
    return bucket.rows > 0 ? bucket.rows : step->n_ids;
}

bool roco_cuda_end(roco_backend *backend)
{
    roco_cuda *cuda = roco_cuda_of(backend);
    roco_cuda_graphs *g = cuda->graphs;
    recording *r = g->under_way;
    if (r == NULL)
        return true;
    g->under_way = NULL;
    r->graph = roco_gpu_graph_end(cuda->gpu);
    if (r->graph != NULL) {
        roco_gpu_graph_run(cuda->gpu, r->graph);
        return true;
    }
    g->unable = true;
    roco_dense_forgive(cuda->dense);
    roco_log(ROCO_LOG_WARN, "cuda: steps cannot be recorded as graphs on this device; each is launched by itself");
    roco_cuda_tables_copy(cuda);
    return false;
}
