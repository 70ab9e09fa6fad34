// What `make test-gpu` runs on a machine with a GPU: scores and selections against the CPU, refusals, the mirror of a
// table, streams and graphs (check_streams.cu), and how long passes over 10^8 blocks take (time_passes.cu).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "gpu_cases.cuh"
#include "table.hpp"

namespace kvopt::gpu {

namespace {

void check_scores(cuda::Scorer& scorer, std::size_t count, std::uint32_t sets, cuda::Stream stream) {
  const HostBlocks host(count, 1);
  const DeviceBlocks device(host);
  for (const Case& each : cases(sets)) {
    std::vector<float> wanted(count * sets);
    score(host.view(), each.params, 1000, wanted.data());
    const OnDevice<float> out(count * sets);
    scorer.score(device.view(), each.params, 1000, out.data, stream);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    const std::vector<float> got = out.host();
    std::size_t apart = 0;
    for (std::size_t i = 0; i < got.size(); ++i) apart += within_one_ulp(got[i], wanted[i]) ? 0 : 1;
    expect(apart == 0,
           each.name + ": " + std::to_string(apart) + " of " + std::to_string(got.size()) + " scores differ");

    // The choice among the device's own scores, so that a difference of one ulp does not count.
    const std::size_t k = std::max<std::size_t>(1, count / 50);
    std::vector<std::uint32_t> chosen(k);
    const OnDevice<std::int64_t> blocks(k * sets);
    scorer.score_select(device.view(), each.params, 1000, k, device.eligible.data, blocks.data, stream);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    const std::vector<std::int64_t> fused = blocks.host();
    for (std::uint32_t set = 0; set < sets; ++set) {
      select_k(got.data() + set * count, count, k, host.eligible.data(), chosen.data());
      expect(std::equal(chosen.begin(), chosen.end(), fused.begin() + static_cast<std::ptrdiff_t>(set * k)),
             each.name + ": score_select of set " + std::to_string(set) + " of " + std::to_string(count) + " blocks");
      scorer.select_k(out.data + set * count, count, k, device.eligible.data, blocks.data, stream);
      check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      const std::vector<std::int64_t> stored = blocks.host();
      expect(std::equal(chosen.begin(), chosen.end(), stored.begin()), each.name + ": select_k");
    }
  }
}

void check_misleading_samples(cuda::Scorer& scorer, cuda::Stream stream) {
  std::vector<float> scores(1'000'000, 1.0F);
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = i % 120 < 4 ? 2.0F : 1.0F;
  const OnDevice<float> device(scores);
  const std::size_t k = 1000;
  const OnDevice<std::int64_t> out(k);
  std::vector<std::uint32_t> wanted(k);
  select_k(scores.data(), scores.size(), k, nullptr, wanted.data());
  scorer.select_k(device.data, scores.size(), k, nullptr, out.data, stream);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  const std::vector<std::int64_t> got = out.host();
  expect(std::equal(wanted.begin(), wanted.end(), got.begin()), "select_k with a misleading sample");
}

void check_refusals(cuda::Scorer& scorer) {
  HostBlocks host(10'000, 3);
  host.cost[7777] = std::nanf("");
  const DeviceBlocks device(host);
  const Case each = cases(1)[2];
  const OnDevice<float> out(10'000);
  std::string message;
  try {
    scorer.score(device.view(), each.params, 1000, out.data, 0, {.checked = true});
  } catch (const ConfigError& e) {
    message = e.what();
  }
  expect(message == "feature 'cost' of block 7777 is NaN", "checked mode names the value: " + message);
}

void check_table() {
  cuda::Table table(0, 200'000, 0);
  std::mt19937 random(4);
  std::vector<float> wanted(200'000);
  for (int round = 0; round < 5; ++round) {
    std::vector<std::uint32_t> rows(100'000);
    std::vector<cuda::Row> values(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i] = random() % 200'000;
      values[i] = {static_cast<float>(i), 0, 0, 0, 0, 0};
      wanted[rows[i]] = static_cast<float>(i);
    }
    table.set(rows.data(), values.data(), rows.size());
    table.flush(0);
  }
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  std::vector<float> got(wanted.size());
  check(cudaMemcpy(got.data(), table.features().last_use, got.size() * 4, cudaMemcpyDeviceToHost), "cudaMemcpy");
  expect(got == wanted, "the mirror equals the table");
}

}  // namespace

}  // namespace kvopt::gpu

int main(int argc, char** argv) {
  using namespace kvopt;
  using namespace kvopt::gpu;
  try {
    const std::string why = cuda::unavailable();
    if (!why.empty()) {
      std::printf("no GPU can be used: %s\n", why.c_str());
      return 2;
    }
    cuda::Scorer scorer(0);
    const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
    for (const std::size_t count : {std::size_t{1}, std::size_t{5}, std::size_t{1023}, std::size_t{300'001}}) {
      check_scores(scorer, count, 1, 0);
      check_scores(scorer, count, 3, 0);
    }
    check_misleading_samples(scorer, 0);
    check_streams(scorer);
    check_refusals(scorer);
    check_table();
    if (!quick) time_passes(scorer, 100'000'000);
  } catch (const std::exception& e) {
    std::printf("FAILED  %s\n", e.what());
    return 1;
  }
  std::printf(failures == 0 ? "all checks passed\n" : "%d checks failed\n", failures);
  return failures == 0 ? 0 : 1;
}
