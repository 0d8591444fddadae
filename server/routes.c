/* The one table of routes. To add an endpoint: its handler in a file of its own, its row here, an http test. */
#include "server/app_state.h"
#include "server/fields_completion.h"

#define GET(path_, handle_, ...)                                                                                       \
    {                                                                                                                  \
        .method = ROCO_GET, .path = path_, .handle = handle_, .summary = __VA_ARGS__                                   \
    }
#define POST(path_, handle_, ...)                                                                                      \
    {                                                                                                                  \
        .method = ROCO_POST, .path = path_, .json = true, .handle = handle_, .summary = __VA_ARGS__                    \
    }

static const roco_route routes[] = {
    POST("/v1/completions", roco_handle_completions, "Text that goes on with a prompt",
         .fields = roco_completion_fields),
    POST("/v1/chat/completions", roco_handle_chat, "An answer to a conversation", .fields = roco_chat_fields),
    POST("/v1/responses", roco_handle_responses, "The same in the form of OpenAI's Responses",
         .fields = roco_responses_fields),
    POST("/v1/messages", roco_handle_messages, "The same in the form of Anthropic's Messages", .anthropic = true,
         .fields = roco_messages_fields),
    POST("/v1/messages/count_tokens", roco_handle_count_tokens, "How many tokens a conversation has", .anthropic = true,
         .fields = roco_messages_fields),
    {.method = ROCO_POST,
     .path = "/v1/embeddings",
     .handle = roco_handle_embeddings,
     .summary = "Always refused: roco makes no embeddings",
     .refused = true},
    GET("/v1/models", roco_handle_models, "The model that is served"),
    POST("/tokenize", roco_handle_tokenize, "Token ids of a text", .fields = roco_tokenize_fields),
    POST("/detokenize", roco_handle_detokenize, "The text of token ids", .fields = roco_detokenize_fields),
    GET("/metrics", roco_handle_metrics, "Counters and gauges in Prometheus' form", .text = true),
    GET("/health", roco_handle_health, "Whether the process serves at all", .open = true),
    GET("/ready", roco_handle_ready, "Whether requests are taken", .open = true),
    GET("/openapi.json", roco_handle_openapi, "This description"),
    {0},
};

const roco_route *roco_app_routes(void)
{
    return routes;
}
