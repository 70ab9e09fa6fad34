// How long one engine step takes, in milliseconds; kvopt.simulator.step_time has the model and its sources.
#pragma once

#include <cstdint>
#include <span>

namespace kvopt::simulator {

struct Chunk {
  std::int64_t tokens = 0;   // new ones
  std::int64_t context = 0;  // cached ones before them
};

class StepTime {
 public:
  virtual ~StepTime() = default;
  // A step with these chunks and `decodes` requests that decode behind `context` cached tokens in all.
  virtual double step_ms(std::span<const Chunk> chunks, std::int64_t decodes, std::int64_t context) = 0;
  // What `tokens` new tokens behind `context` cached ones add to a step.
  virtual double prefill_ms(std::int64_t tokens, std::int64_t context) = 0;
};

struct LinearCoefficients {
  double k0 = 0;
  double k1 = 0;
  double k2 = 0;
  double k3 = 0;
  double d1 = 0;
  double d2 = 0;
};

class LinearStepTime final : public StepTime {
 public:
  explicit LinearStepTime(const LinearCoefficients& coefficients) : c_(coefficients) {}

  double step_ms(std::span<const Chunk> chunks, std::int64_t decodes, std::int64_t context) override {
    double ms = c_.k0 + c_.d1 * static_cast<double>(decodes) + c_.d2 * static_cast<double>(context);
    for (const Chunk& chunk : chunks) ms += prefill_ms(chunk.tokens, chunk.context);
    return ms;
  }

  double prefill_ms(std::int64_t tokens, std::int64_t context) override {
    const auto q = static_cast<double>(tokens);
    const auto s = static_cast<double>(context);
    return c_.k1 * q + c_.k2 * s + c_.k3 * q * s;
  }

 private:
  LinearCoefficients c_;
};

}  // namespace kvopt::simulator
