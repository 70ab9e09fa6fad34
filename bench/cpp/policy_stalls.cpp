// How long a policy can hold up the pool: the time of each of its hooks over the replay of a trace. Prints JSON,
// nanoseconds a call.
//
//   policy_stalls TRACE POLICY CAPACITY BLOCK_TOKENS REPLAYS
//
// By the CPU clock of the thread, which an interrupt still adds to. So the trace is replayed several times, call by
// call the same, and a call took as long as in the fastest of them. What the clock itself takes is "nothing". The first
// quarter of the requests warms up and is left out.
//
// TRACE holds the number of requests (64 bits), then columns: parent (32 bits), shared and new blocks (32 bits each),
// time (a double), session and output tokens (32 bits each), stop reason and whether it is a sub-agent's (8 bits each).
#include <time.h>
#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <kvopt/block_pool.hpp>
#include <kvopt/replay.hpp>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace {

using kvopt::RequestInfo;
using kvopt::RunId;
using kvopt::Time;

std::int64_t thread_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

enum Hook : std::size_t { kNothing, kHit, kStored, kReleased, kVictim, kEvicted };
constexpr std::array<const char*, 6> kNames = {"nothing",          "hit",    "store",
                                               "release, classes", "victim", "what is remembered of a victim"};

// Nanoseconds of single calls, by hook.
using Calls = std::array<std::vector<std::int64_t>, kNames.size()>;

// In front of another policy, whose hooks it times.
class TimedPolicy final : public kvopt::Policy {
 public:
  TimedPolicy(std::unique_ptr<Policy> policy, std::int64_t from, Calls& calls)
      : policy_(std::move(policy)), from_(from), calls_(calls) {}

  void attach(const kvopt::PolicyContext& context) override { policy_->attach(context); }
  void on_miss(std::uint64_t key, const RequestInfo& info) override {
    counts_ = info.request >= from_;
    policy_->on_miss(key, info);
  }
  void on_hit(std::span<const RunId> hit, const RequestInfo& info) override {
    counts_ = info.request >= from_;
    timed(kHit, [&] { policy_->on_hit(hit, info); });
  }
  void on_stored(std::span<const RunId> stored, const RequestInfo& info) override {
    timed(kStored, [&] { policy_->on_stored(stored, info); });
  }
  void on_split(RunId head, RunId tail) override { policy_->on_split(head, tail); }
  void on_referenced(std::span<const RunId> runs) override { policy_->on_referenced(runs); }
  void on_evictable(std::span<const RunId> runs, const RequestInfo& info) override {
    timed(kNothing, [] {});
    timed(kReleased, [&] { policy_->on_evictable(runs, info); });
  }
  void on_dropped(std::span<const RunId> runs) override { policy_->on_dropped(runs); }
  void on_forgotten(RunId run) override { policy_->on_forgotten(run); }
  void on_uncovered(RunId run) override { policy_->on_uncovered(run); }
  void on_trimmed(RunId run) override { policy_->on_trimmed(run); }
  void on_evicted(RunId run, std::uint64_t key, std::uint32_t blocks) override {
    timed(kEvicted, [&] { policy_->on_evicted(run, key, blocks); });
  }
  RunId choose(std::uint32_t wanted, Time now) override {
    RunId victim = kvopt::kNoRun;
    timed(kVictim, [&] { victim = policy_->choose(wanted, now); });
    return victim;
  }
  std::uint32_t expendable(RunId run) const override { return policy_->expendable(run); }

 private:
  template <class Call>
  void timed(Hook hook, Call call) {
    const std::int64_t begin = thread_nanoseconds();
    call();
    const std::int64_t end = thread_nanoseconds();
    if (counts_) calls_.at(hook).push_back(end - begin);
  }

  std::unique_ptr<Policy> policy_;
  std::int64_t from_;
  Calls& calls_;
  bool counts_ = false;
};

template <class T>
std::vector<T> column(std::istream& in, std::uint64_t requests) {
  std::vector<T> values(requests);
  in.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(requests * sizeof(T)));
  return values;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::cerr << "usage: policy_stalls TRACE POLICY CAPACITY BLOCK_TOKENS REPLAYS\n";
    return 2;
  }
  std::ifstream in(argv[1], std::ios::binary);
  const std::uint64_t requests = column<std::uint64_t>(in, 1).front();
  auto parent = column<std::int32_t>(in, requests);
  auto shared = column<std::uint32_t>(in, requests);
  auto fresh = column<std::uint32_t>(in, requests);
  const auto time = column<double>(in, requests);
  const auto session = column<std::int32_t>(in, requests);
  const auto output = column<std::uint32_t>(in, requests);
  const auto stop = column<std::uint8_t>(in, requests);
  const auto subagent = column<std::uint8_t>(in, requests);
  if (!in) {
    std::cerr << argv[1] << " is too short\n";
    return 2;
  }
  const kvopt::PrefixTrace trace(std::move(parent), std::move(shared), std::move(fresh));
  kvopt::RequestColumns columns{};
  columns.time = time;
  columns.session = session;
  columns.output_tokens = output;
  columns.stop = stop;
  columns.subagent = subagent;
  kvopt::ReplayOptions options;
  options.capacity = static_cast<std::uint32_t>(std::stoul(argv[3]));
  options.block_tokens = static_cast<std::uint32_t>(std::stoul(argv[4]));
  Calls least;
  std::uint64_t hits = 0;
  for (unsigned long replay = 0; replay < std::stoul(argv[5]); ++replay) {
    Calls calls;
    const kvopt::ReplayCounts counts =
        kvopt::replay(trace, columns,
                      std::make_unique<TimedPolicy>(kvopt::make_policy(kvopt::parse_policy(argv[2])),
                                                    static_cast<std::int64_t>(requests / 4), calls),
                      options);
    hits = std::accumulate(counts.hit_blocks.begin(), counts.hit_blocks.end(), std::uint64_t{0});
    for (std::size_t h = 0; h < kNames.size(); ++h) {
      if (replay == 0) least.at(h) = calls.at(h);
      for (std::size_t i = 0; i < least.at(h).size(); ++i) least[h][i] = std::min(least[h][i], calls.at(h).at(i));
    }
  }
  std::cout << "{\"hit_blocks\": " << hits << ", \"calls\": {";
  for (std::size_t h = 0; h < kNames.size(); ++h) {
    std::vector<std::int64_t>& times = least.at(h);
    std::sort(times.begin(), times.end());
    const auto at = [&](std::size_t tenths) { return times.empty() ? 0 : times[(times.size() - 1) * tenths / 10'000]; };
    std::cout << (h > 0 ? ", " : "") << "\"" << kNames.at(h) << "\": {\"p50\": " << at(5'000)
              << ", \"p999\": " << at(9'990) << ", \"max\": " << at(10'000) << ", \"calls\": " << times.size() << "}";
  }
  std::cout << "}}\n";
  return 0;
}
