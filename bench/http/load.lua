-- load.lua: the requests of wrk in the HTTP cases, and its result as a line of fields for cases.py.
--
--     wrk ... -s load.lua URL -- hello|json

local function body()
    local items = {}
    local size = 10240 - #'{"items":[]}'
    local item = '{"id":1000,"name":"an item of the list","price":12.5,"tags":["one","two"]}'
    while size > 2 * #item do
        items[#items + 1] = item
        size = size - #item - 1
    end
    items[#items + 1] = '"' .. string.rep("x", size - 2) .. '"'
    return '{"items":[' .. table.concat(items, ",") .. "]}"
end

function init(args)
    if args[1] == "json" then
        wrk.method = "POST"
        wrk.body = body()
        wrk.headers["Content-Type"] = "application/json"
    end
end

function done(summary, latency)
    local errors = summary.errors
    print(string.format("result requests=%d us=%d failed=%d p50_us=%d p99_us=%d max_us=%d", summary.requests,
        summary.duration, errors.connect + errors.read + errors.write + errors.status + errors.timeout,
        latency:percentile(50), latency:percentile(99), latency.max))
end
