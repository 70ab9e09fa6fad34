// Captures, streams that work at the same time, and columns at odd addresses.
#include <algorithm>

#include "gpu_cases.cuh"

namespace kvopt::gpu {

namespace {

constexpr std::size_t kChosen = 1000;

class OwnStream {
 public:
  OwnStream() { check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate"); }
  ~OwnStream() { cudaStreamDestroy(stream); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  cuda::Stream address() const { return reinterpret_cast<cuda::Stream>(stream); }
  void wait() const { check(cudaStreamSynchronize(stream), "cudaStreamSynchronize"); }

  cudaStream_t stream = nullptr;
};

// The blocks that a choice takes on the CPU, among the device's own scores: a difference of one ulp does not count.
std::vector<std::int64_t> wanted(cuda::Scorer& scorer, const BlockFeatures& device, const Case& each,
                                 const std::uint8_t* eligible) {
  const OnDevice<float> scores(device.count);
  scorer.score(device, each.params, 1000, scores.data, 0);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  std::vector<std::uint32_t> chosen(kChosen);
  select_k(scores.host().data(), device.count, kChosen, eligible, chosen.data());
  return {chosen.begin(), chosen.end()};
}

// cost-per-age of another offset, so that parameters differ from case to case.
Case by_offset(float offset) {
  Case made = cases(1)[2];
  made.values = {offset};
  made.params.values = made.values.data();
  return made;
}

class Graph {
 public:
  template <class Call>
  Graph(const OwnStream& on, const Call& call) {
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(on.stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    try {
      call();
    } catch (const CudaError&) {
      refused = true;
    }
    check(cudaStreamEndCapture(on.stream, &graph), "cudaStreamEndCapture");
    if (!refused) check(cudaGraphInstantiate(&runnable_, graph, 0), "cudaGraphInstantiate");
    check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }
  ~Graph() {
    if (runnable_ != nullptr) cudaGraphExecDestroy(runnable_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch(const OwnStream& on) const { check(cudaGraphLaunch(runnable_, on.stream), "cudaGraphLaunch"); }

  bool refused = false;

 private:
  cudaGraphExec_t runnable_ = nullptr;
};

void check_graphs(cuda::Scorer& scorer, const HostBlocks& host, const DeviceBlocks& device) {
  const OwnStream stream;
  const OwnStream other;
  const Case first = by_offset(0.5F);
  const Case second = by_offset(300);
  const OnDevice<std::int64_t> out(kChosen);
  const OnDevice<std::int64_t> second_out(kChosen);
  const OnDevice<std::int64_t> direct_out(kChosen);
  const auto call = [&](const Case& each, const OnDevice<std::int64_t>& to) {
    scorer.score_select(device.view(), each.params, 1000, kChosen, device.eligible.data, to.data, stream.address());
  };
  expect(Graph(stream, [&] { call(first, out); }).refused, "a capture that needs memory is refused");
  call(first, out);
  const Graph graph(stream, [&] { call(first, out); });
  expect(!graph.refused, "a call like an earlier one is captured");
  expect(Graph(stream, [&] { call(first, second_out); }).refused, "a second capture does not share the first's memory");
  call(second, second_out);
  const Graph second_graph(stream, [&] { call(second, second_out); });
  expect(!second_graph.refused, "a second call is captured");
  stream.wait();
  // Both graphs and direct calls at the same time.
  for (const OnDevice<std::int64_t>* each : {&out, &second_out, &direct_out}) {
    check(cudaMemset(each->data, 0, kChosen * sizeof(std::int64_t)), "cudaMemset");
  }
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  const OwnStream third;
  for (int round = 0; round < 20; ++round) {
    graph.launch(other);
    second_graph.launch(third);
    call(first, direct_out);
  }
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  const auto by_first = wanted(scorer, device.view(), first, host.eligible.data());
  expect(out.host() == by_first, "a graph chooses the same blocks, beside other work");
  expect(second_out.host() == wanted(scorer, device.view(), second, host.eligible.data()), "so does another graph");
  expect(direct_out.host() == by_first, "a call beside graphs of its stream chooses the same blocks");
}

// Many parameter sets, each used once and dropped while work with it may still be queued.
void check_parameters(cuda::Scorer& scorer, const DeviceBlocks& device) {
  constexpr std::size_t kCalls = 40;
  const OwnStream stream;
  const OnDevice<std::int64_t> out(kCalls * kChosen);
  for (std::size_t i = 0; i < kCalls; ++i) {
    scorer.score_select(device.view(), by_offset(static_cast<float>(i)).params, 1000, kChosen, nullptr,
                        out.data + i * kChosen, stream.address());
  }
  stream.wait();
  const std::vector<std::int64_t> got = out.host();
  for (std::size_t i = 0; i < kCalls; ++i) {
    const auto expected = wanted(scorer, device.view(), by_offset(static_cast<float>(i)), nullptr);
    expect(std::equal(expected.begin(), expected.end(), got.begin() + static_cast<std::ptrdiff_t>(i * kChosen)),
           "choice " + std::to_string(i) + " of many parameter sets");
  }
}

// The default streams, and two streams at a time.
void check_several_streams(cuda::Scorer& scorer, const DeviceBlocks& device) {
  const OwnStream a;
  const OwnStream b;
  const cuda::Stream streams[] = {0, 1, 2, a.address(), b.address()};
  const OnDevice<std::int64_t> out(std::size(streams) * kChosen);
  const Case each = by_offset(2);
  for (int round = 0; round < 10; ++round) {
    for (std::size_t s = 0; s < std::size(streams); ++s) {
      scorer.score_select(device.view(), each.params, 1000, kChosen, nullptr, out.data + s * kChosen, streams[s]);
    }
  }
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  const auto expected = wanted(scorer, device.view(), each, nullptr);
  const std::vector<std::int64_t> got = out.host();
  for (std::size_t s = 0; s < std::size(streams); ++s) {
    expect(std::equal(expected.begin(), expected.end(), got.begin() + static_cast<std::ptrdiff_t>(s * kChosen)),
           "stream " + std::to_string(s) + " beside others");
  }
}

BlockFeatures past_the_first(const BlockFeatures& all, std::size_t blocks) {
  BlockFeatures part = all;
  part.count = all.count - blocks;
  part.last_use += blocks, part.cost += blocks, part.pace += blocks;
  part.hits += blocks, part.depth += blocks, part.cls += blocks;
  part.extra = nullptr;
  part.extra_columns = 0;
  return part;
}

// Columns that begin off the boundaries of 16 bytes, and scores that do.
void check_odd_addresses(cuda::Scorer& scorer, const HostBlocks& host, const DeviceBlocks& device) {
  for (const std::size_t past : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{4}}) {
    const BlockFeatures features = past_the_first(host.view(), past);
    const Case each = by_offset(2);
    std::vector<float> scores(features.count);
    score(features, each.params, 1000, scores.data());
    const OnDevice<float> out(features.count + past);
    scorer.score(past_the_first(device.view(), past), each.params, 1000, out.data + past, 0);
    const OnDevice<std::int64_t> chosen(kChosen);
    scorer.select_k(out.data + past, features.count, kChosen, nullptr, chosen.data, 0);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    const std::vector<float> got = out.host();
    expect(std::equal(scores.begin(), scores.end(), got.begin() + static_cast<std::ptrdiff_t>(past), within_one_ulp),
           "scores of columns from block " + std::to_string(past));
    expect(chosen.host() == wanted(scorer, past_the_first(device.view(), past), each, nullptr),
           "choice from block " + std::to_string(past));
  }
}

}  // namespace

void check_streams(cuda::Scorer& scorer) {
  const HostBlocks host(300'003, 2);
  const DeviceBlocks device(host);
  check_graphs(scorer, host, device);
  check_parameters(scorer, device);
  check_several_streams(scorer, device);
  check_odd_addresses(scorer, host, device);
}

}  // namespace kvopt::gpu
