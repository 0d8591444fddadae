-- wrk script: completions of mixed lengths and budgets, plain, or streamed when the word `stream` follows the URL.
--
--     wrk -t1 -c64 -d60s --timeout 60s -s tests/load/completions.lua http://127.0.0.1:8080 [-- stream]
--
-- Besides what wrk counts itself, the last line it prints is JSON: replies that were not complete, with one example.

local sentence = "Once upon a time, in a small village by the sea, there lived an old fisherman. "
local threads = {}
local requests = {}
local next_request = 0
replies, incomplete, example = 0, 0, ""

function setup(thread)
    table.insert(threads, thread)
end

function init(args)
    streaming = args[1] == "stream"
    local headers = {["Content-Type"] = "application/json"}
    for i = 0, 59 do
        local budget = ({32, 64, 128, 1024})[i % 4 + 1]
        local body = string.format('{"prompt":"%s","max_tokens":%d,"ignore_eos":true,"kv_budget":%d,"seed":%d,"stream":%s}',
            sentence:rep(1 + i % 5), 1 + i * 7 % 24, budget, i, tostring(streaming))
        table.insert(requests, wrk.format("POST", "/v1/completions", headers, body))
    end
end

function request()
    next_request = next_request % #requests + 1
    return requests[next_request]
end

function response(status, headers, body)
    replies = replies + 1
    local ending = streaming and "data: %[DONE%]\n\n$" or '"finish_reason":"length".*}%s*$'
    if status ~= 200 or not body:find(ending) then
        incomplete = incomplete + 1
        example = status .. " " .. body:sub(-200)
    end
end

function done(summary, latency)
    local incomplete, replies, example = 0, 0, ""
    for _, thread in ipairs(threads) do
        replies = replies + thread:get("replies")
        incomplete = incomplete + thread:get("incomplete")
        example = thread:get("example")
    end
    local e = summary.errors
    io.write(string.format('{"replies":%d,"seconds":%.3f,"incomplete":%d,"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d,' ..
        '"p50_ms":%.1f,"p99_ms":%.1f,"max_ms":%.1f,"example":"%s"}\n', replies, summary.duration / 1e6, incomplete, e.connect, e.read,
        e.write, e.status, e.timeout, latency:percentile(50) / 1000, latency:percentile(99) / 1000, latency.max / 1000,
        example:gsub('[%c"\\]', " ")))
end
