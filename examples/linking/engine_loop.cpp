// The scheduling loop of a toy engine: agents whose prompts grow turn by turn share one system prompt and one pool.
//
// What an engine does for a request: acquire (the cached prefix and room for the rest), commit what the prefill has
// computed, extend and commit while it decodes, release with what it knows of the session. A request that finds no room
// waits. The system prompt is retained at a high priority, where the policy looks at that.
#include <cstdint>
#include <deque>
#include <iomanip>
#include <iostream>
#include <kvopt/block_pool.hpp>
#include <kvopt/error.hpp>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kSystemBlocks = 20;
constexpr std::size_t kTurnBlocks = 6;    // a turn's question and the result of its tool
constexpr std::size_t kAnswerBlocks = 4;  // what the model answers, a block each step
constexpr int kAgents = 8;
constexpr int kTurns = 6;

// Keys stand for a block and everything before it; an engine hashes token ids, here a number says it all.
std::uint64_t key(int agent, std::size_t block) {
  return block < kSystemBlocks ? block + 1 : static_cast<std::uint64_t>(agent + 1) << 32 | block;
}

struct Request {
  int agent = 0;
  int turn = 0;
  std::vector<std::uint64_t> keys = {};  // of its prompt, then of its answer
  std::size_t prompt = 0;
  kvopt::Allocation blocks = {};
};

Request make_request(int agent, int turn) {
  Request request{.agent = agent, .turn = turn};
  request.prompt = kSystemBlocks + kTurnBlocks + static_cast<std::size_t>(turn) * (kTurnBlocks + kAnswerBlocks);
  for (std::size_t i = 0; i < request.prompt + kAnswerBlocks; ++i) request.keys.push_back(key(agent, i));
  return request;
}

class Engine {
 public:
  explicit Engine(const std::string& policy)
      : pool_({.capacity = 300, .retention = true}, kvopt::make_policy(kvopt::parse_policy(policy))) {}

  void run() {
    for (int agent = 0; agent < kAgents; ++agent) waiting_.push_back(make_request(agent, 0));
    while (!waiting_.empty() || !running_.empty()) {
      now_ += 0.05;
      admit();
      decode();
    }
  }

  void print() const {
    const kvopt::PoolStats stats = pool_.stats();
    const double asked = static_cast<double>(stats.hit_blocks) + static_cast<double>(stats.new_blocks);
    std::cout << std::fixed << std::setprecision(1) << stats.requests << " requests in " << now_ << " s, "
              << 100.0 * static_cast<double>(stats.hit_blocks) / asked << "% of their blocks were cached, "
              << stats.dropped[static_cast<std::size_t>(kvopt::DropReason::kCapacity)] << " blocks evicted, waited "
              << waits_ << " times\n";
    for (const std::string& broken : pool_.verify()) std::cout << "broken: " << broken << "\n";
  }

 private:
  // First come, first served; the prefill of what was not cached takes no time here.
  void admit() {
    while (!waiting_.empty()) {
      Request& next = waiting_.front();
      const kvopt::Keys prompt{.hashes = next.keys.data(), .count = next.prompt};
      try {
        pool_.acquire(next.blocks, prompt, next.prompt, info(next));
      } catch (const kvopt::NotEnoughBlocksError&) {  // nothing has changed
        ++waits_;
        return;
      }
      commit(next, next.prompt);
      if (pool_.honours_priority()) {
        pool_.retain(next.blocks, 0, kSystemBlocks, 90, 60.0, kvopt::Lifetime::kRefresh, now_);
      }
      running_.push_back(std::move(next));
      waiting_.pop_front();
    }
  }

  // One block for each running request; those that have answered let go, and their agents come again.
  void decode() {
    for (std::size_t count = running_.size(); count > 0; --count) {
      Request request = std::move(running_.front());
      running_.pop_front();
      try {
        pool_.extend(request.blocks, 1, info(request));
      } catch (const kvopt::NotEnoughBlocksError&) {  // preempted: it starts again, hitting what is still there
        pool_.release(request.blocks, info(request));
        waiting_.push_back(std::move(request));
        continue;
      }
      commit(request, request.blocks.size());
      if (request.blocks.size() < request.keys.size()) {
        running_.push_back(std::move(request));
        continue;
      }
      const bool last = request.turn + 1 == kTurns;
      kvopt::RequestInfo known = info(request);
      known.stop = last ? kvopt::StopReason::kEndOfTurn : kvopt::StopReason::kToolUse;
      known.last_turn = last;
      pool_.release(request.blocks, known);
      if (!last) waiting_.push_back(make_request(request.agent, request.turn + 1));
    }
  }

  void commit(Request& request, std::size_t until) {
    const std::size_t done = request.blocks.committed();
    pool_.commit(request.blocks, {.hashes = request.keys.data() + done, .count = until - done}, info(request));
  }

  kvopt::RequestInfo info(const Request& request) const {
    return {.now = now_, .session = request.agent, .turn = request.turn};
  }

  kvopt::BlockPool pool_;
  double now_ = 0;
  int waits_ = 0;
  std::deque<Request> waiting_;
  std::deque<Request> running_;
};

}  // namespace

int main(int count, char** arguments) {
  try {
    Engine engine(count > 1 ? arguments[1] : "priority");
    engine.run();
    engine.print();
  } catch (const kvopt::Error& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
