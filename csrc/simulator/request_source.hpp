// The requests of a trace, each made when it is sent; kvopt/simulator/requests.py says what becomes of answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kvopt/policy.hpp"
#include "kvopt/prefix_trace.hpp"
#include "simulator/request.hpp"

namespace kvopt::simulator {

// One entry a request of the trace each.
struct RequestColumns {
  std::vector<std::int64_t> prompt_tokens;  // 1 up
  std::vector<std::int64_t> output_tokens;  // 1 up
  std::vector<std::int64_t> follower;       // the next request of the session or sub-agent, or -1
  std::vector<std::int64_t> session;        // requests without one have one each
  std::vector<std::int64_t> priority;
  std::vector<std::int32_t> trace_session;  // -1: none
  std::vector<std::int32_t> turn;
  std::vector<std::int32_t> tool;
  std::vector<std::int32_t> steps;
  std::vector<float> gap;  // negative: unknown
  std::vector<float> return_probability;
  std::vector<std::uint8_t> stop;
  std::vector<std::uint8_t> subagent;
};

class RequestSource {
 public:
  RequestSource(PrefixTrace prefix, RequestColumns columns, std::int64_t block_tokens, bool answers_reused)
      : prefix_(std::move(prefix)),
        columns_(std::move(columns)),
        block_tokens_(block_tokens),
        answers_reused_(answers_reused) {}

  std::int64_t block_tokens() const { return block_tokens_; }
  std::size_t named_blocks() const { return prefix_.unique_blocks(); }
  std::size_t requests() const { return columns_.prompt_tokens.size(); }
  std::int64_t subagent(std::int64_t request) const { return at(columns_.subagent, request); }

  RequestPtr make(std::int64_t request, Time arrival, Time session_arrival) const;
  // What the server knows while the request runs.
  RequestInfo info(std::int64_t request, Time now) const;
  // What it knows once the answer has ended.
  RequestInfo info_at_end(std::int64_t request, Time now, std::int64_t output_tokens, bool aborted) const;
  // How the trace says that the answer ended.
  RequestState final_state(std::int64_t request) const;
  // Blocks at the end of the answer; its last token is never computed.
  std::int64_t blocks_needed(std::int64_t request) const;

 private:
  template <class T>
  static T at(const std::vector<T>& column, std::int64_t request) {
    return column[static_cast<std::size_t>(request)];
  }
  std::vector<std::uint32_t> chain(std::int64_t request) const;
  std::optional<std::vector<std::uint32_t>> with_answer(std::int64_t request, const std::vector<std::uint32_t>& named,
                                                        std::size_t prompt, std::size_t total) const;
  void set_keys(Request& request) const;

  PrefixTrace prefix_;
  RequestColumns columns_;
  std::int64_t block_tokens_;
  bool answers_reused_;
};

}  // namespace kvopt::simulator
