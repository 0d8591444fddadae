/* The one table of routes. To add an endpoint: its handler in a file of its own, its row here, an http test. */
#include "server/app_state.h"

static const roco_route routes[] = {
    {.method = ROCO_POST, .path = "/v1/completions", .json = true, .handle = roco_handle_completions},
    {.method = ROCO_POST, .path = "/v1/chat/completions", .json = true, .handle = roco_handle_chat},
    {.method = ROCO_POST, .path = "/v1/responses", .json = true, .handle = roco_handle_responses},
    {.method = ROCO_POST, .path = "/v1/messages", .json = true, .anthropic = true, .handle = roco_handle_messages},
    {.method = ROCO_POST,
     .path = "/v1/messages/count_tokens",
     .json = true,
     .anthropic = true,
     .handle = roco_handle_count_tokens},
    {.method = ROCO_POST, .path = "/v1/embeddings", .handle = roco_handle_embeddings},
    {.method = ROCO_GET, .path = "/v1/models", .handle = roco_handle_models},
    {.method = ROCO_POST, .path = "/tokenize", .json = true, .handle = roco_handle_tokenize},
    {.method = ROCO_POST, .path = "/detokenize", .json = true, .handle = roco_handle_detokenize},
    {.method = ROCO_GET, .path = "/metrics", .handle = roco_handle_metrics},
    {.method = ROCO_GET, .path = "/health", .open = true, .handle = roco_handle_health},
    {.method = ROCO_GET, .path = "/ready", .open = true, .handle = roco_handle_ready},
    {0},
};

const roco_route *roco_app_routes(void)
{
    return routes;
}
