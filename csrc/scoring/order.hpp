// Candidates by their scores: a stable radix sort over the bits in which their order keys differ. O(n) a pass of 11
// bits, of which there are at most three; candidates that come in the order of their indices keep it among equals.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "scoring/kernels.hpp"

namespace kvopt::scoring {

// Returns where they are in order: in their own place or in `other`, which has room for as many.
inline std::span<const Candidate> order_candidates(std::span<Candidate> candidates, std::span<Candidate> other) {
  constexpr std::size_t kFew = 512;  // below, comparing them is quicker than counting digits
  constexpr std::uint32_t kMostDigitBits = 11;
  if (candidates.size() < kFew) {
    std::ranges::sort(candidates);
    return candidates;
  }
  std::uint32_t lowest = UINT32_MAX;
  std::uint32_t highest = 0;
  for (const Candidate candidate : candidates) {
    lowest = std::min(lowest, static_cast<std::uint32_t>(candidate >> 32));
    highest = std::max(highest, static_cast<std::uint32_t>(candidate >> 32));
  }
  const auto bits = static_cast<std::uint32_t>(std::bit_width(highest - lowest));
  const std::uint32_t passes = (bits + kMostDigitBits - 1) / kMostDigitBits;
  const std::uint32_t digit_bits = passes == 0 ? 0 : (bits + passes - 1) / passes;
  for (std::uint32_t pass = 0; pass < passes; ++pass) {
    const auto digit = [&](Candidate candidate) {
      const std::uint32_t key = static_cast<std::uint32_t>(candidate >> 32) - lowest;
      return key >> pass * digit_bits & ((1U << digit_bits) - 1);
    };
    std::array<std::uint32_t, 1U << kMostDigitBits> place{};
    for (const Candidate candidate : candidates) ++place[digit(candidate)];
    std::uint32_t sum = 0;
    for (std::uint32_t& each : std::span(place).first(std::size_t{1} << digit_bits)) sum += std::exchange(each, sum);
    for (const Candidate candidate : candidates) other[place[digit(candidate)]++] = candidate;
    std::swap(candidates, other);
  }
  return candidates;
}

}  // namespace kvopt::scoring
