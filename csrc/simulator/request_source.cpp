#include "simulator/request_source.hpp"

#include <algorithm>

namespace kvopt::simulator {

namespace {

constexpr std::uint64_t kPrivate = std::uint64_t{1} << 63;  // keys of blocks that the trace does not name
constexpr unsigned kPlaceBits = 24;                         // this, the request, the place in it

}  // namespace

RequestPtr RequestSource::make(std::int64_t request, Time arrival, Time session_arrival) const {
  auto made = std::make_shared<Request>();
  made->id = request;
  made->session = at(columns_.session, request);
  made->turn = at(columns_.turn, request);
  made->prompt_tokens = at(columns_.prompt_tokens, request);
  made->output_tokens = at(columns_.output_tokens, request);
  made->arrival = arrival;
  made->session_arrival = session_arrival;
  made->priority = at(columns_.priority, request);
  made->subagent = at(columns_.subagent, request) != 0;
  set_keys(*made);
  return made;
}

RequestInfo RequestSource::info(std::int64_t request, Time now) const {
  RequestInfo info;
  info.now = now;
  info.request = request;
  info.session = at(columns_.trace_session, request);
  info.turn = at(columns_.turn, request);
  info.gap = at(columns_.gap, request);
  info.subagent = at(columns_.subagent, request) != 0;
  info.steps = at(columns_.steps, request);
  info.return_probability = at(columns_.return_probability, request);
  return info;
}

RequestInfo RequestSource::info_at_end(std::int64_t request, Time now, std::int64_t output_tokens, bool aborted) const {
  RequestInfo end = info(request, now);
  end.tool = at(columns_.tool, request);
  end.output_tokens = static_cast<std::uint32_t>(output_tokens);
  end.stop = aborted ? StopReason::kAbort : static_cast<StopReason>(at(columns_.stop, request));
  return end;
}

RequestState RequestSource::final_state(std::int64_t request) const {
  switch (static_cast<StopReason>(at(columns_.stop, request))) {
    case StopReason::kLength:
      return RequestState::kFinishedLengthCapped;
    case StopReason::kAbort:
      return RequestState::kFinishedAborted;
    default:
      return RequestState::kFinishedStopped;
  }
}

std::int64_t RequestSource::blocks_needed(std::int64_t request) const {
  const std::int64_t tokens = at(columns_.prompt_tokens, request) + at(columns_.output_tokens, request) - 1;
  return (tokens + block_tokens_ - 1) / block_tokens_;
}

std::vector<std::uint32_t> RequestSource::chain(std::int64_t request) const {
  const auto r = static_cast<std::size_t>(request);
  std::vector<std::uint32_t> blocks(prefix_.length(r));
  prefix_.chain(r, blocks);
  return blocks;
}

void RequestSource::set_keys(Request& request) const {
  const auto prompt = static_cast<std::size_t>(request.prompt_tokens / block_tokens_);
  const auto total = static_cast<std::size_t>((request.prompt_tokens + request.output_tokens - 1) / block_tokens_);
  std::vector<std::uint32_t> named = chain(request.id);
  named.resize(std::min(named.size(), prompt));
  if (total > named.size()) {
    if (const auto answered = with_answer(request.id, named, prompt, total)) {
      request.keys.assign(answered->begin(), answered->end());
      request.prompt_keys = total;
      return;
    }
  }
  request.keys.reserve(total);
  request.keys.assign(named.begin(), named.end());
  request.prompt_keys = named.size();
  const std::uint64_t own = kPrivate + (static_cast<std::uint64_t>(request.id) << kPlaceBits);
  for (std::size_t place = named.size(); place < total; ++place) request.keys.push_back(own + place);
}

// The blocks of prompt and answer, where the follower repeats the whole prompt and has room for the answer.
std::optional<std::vector<std::uint32_t>> RequestSource::with_answer(std::int64_t request,
                                                                     const std::vector<std::uint32_t>& named,
                                                                     std::size_t prompt, std::size_t total) const {
  const std::int64_t follower = at(columns_.follower, request);
  if (!answers_reused_ || follower < 0 || named.size() < prompt) return std::nullopt;
  const std::int64_t tokens = at(columns_.prompt_tokens, request) + at(columns_.output_tokens, request);
  if (at(columns_.prompt_tokens, follower) < tokens) return std::nullopt;
  std::vector<std::uint32_t> blocks = chain(follower);
  if (blocks.size() < total || (prompt > 0 && blocks[prompt - 1] != named[prompt - 1])) return std::nullopt;
  blocks.resize(total);
  return blocks;
}

}  // namespace kvopt::simulator
