/* POST /v1/embeddings: clients that try it are told what the server is for. */
#include "server/app_state.h"

void roco_handle_embeddings(roco_exchange *exchange, void *context)
{
    (void)context;
    roco_problem problem = {.code = "unsupported_endpoint"};
    roco_fail(&problem.error, ROCO_UNSUPPORTED, NULL,
              "this server generates text and makes no embeddings; use /v1/completions, /v1/chat/completions, "
              "/v1/responses or /v1/messages");
    roco_problem_reply(&problem, exchange);
}
