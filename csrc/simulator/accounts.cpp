#include "simulator/accounts.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kvopt/error.hpp"

namespace kvopt::simulator {

namespace {

std::string text(std::int64_t value) { return std::to_string(value); }

std::string text(const std::array<std::int64_t, 2>& pair) { return text(pair[0]) + " and " + text(pair[1]); }

}  // namespace

void Accounts::arrived(const Request& request) {
  ++collector_.totals.requests;
  collector_.count(request.arrival, Count::kArrivals);
  collector_.event(request.arrival, EventKind::kArrived, request.id, request.prompt_tokens);
}

void Accounts::refused(const Request& request, std::int64_t blocks) {
  ++collector_.totals.refused;
  collector_.event(request.arrival, EventKind::kRefused, request.id, blocks);
}

void Accounts::loading(const Request& request, Time now) {
  collector_.event(now, EventKind::kLoading, request.id, request.loaded);
}

void Accounts::admitted(Request& request, Time now) {
  Totals& totals = collector_.totals;
  const std::int64_t hit = request.computed - request.loaded;
  request.hit += request.computed;
  totals.loaded_tokens += request.loaded;
  if (request.first_admitted < 0) {
    request.first_admitted = now;
    totals.prompt_tokens += request.prompt_tokens;
    totals.hit_tokens += hit;
    collector_.add(Latency::kQueueing, now - request.arrival);
    collector_.count(now, Count::kPromptTokens, request.prompt_tokens);
    collector_.count(now, Count::kHitTokens, hit);
  } else {
    totals.reread_tokens += hit;
  }
  collector_.event(now, EventKind::kAdmitted, request.id, hit);
}

void Accounts::prefilled(Request& request, std::int64_t tokens, Time now) {
  request.prefilled += tokens;
  planned_[0] += tokens;
  collector_.count(now, Count::kPrefilledTokens, tokens);
  const std::int64_t end = request.computed + tokens;
  const std::int64_t tail = memory_.reach(request) * memory_.block_tokens();
  const std::array<std::pair<Cause, std::int64_t>, kCauses> until = {{{Cause::kPreempted, request.lost},
                                                                      {Cause::kEvicted, request.seen},
                                                                      {Cause::kCold, tail},
                                                                      {Cause::kTail, request.tokens()}}};
  std::int64_t begin = request.computed;
  for (const auto& [cause, limit] : until) {
    const std::int64_t stop = std::min(end, limit);
    if (stop <= begin) continue;
    collector_.prefill_tokens[static_cast<std::size_t>(cause)] += stop - begin;
    collector_.prefill_ms[static_cast<std::size_t>(cause)] += time_.prefill_ms(stop - begin, begin);
    begin = stop;
  }
}

void Accounts::first_token(const Request& request, Time now) {
  collector_.add(Latency::kTtft, now - request.arrival);
  collector_.event(now, EventKind::kFirstToken, request.id, request.generated);
}

void Accounts::preempted(Request& request, Time now) {
  ++request.preemptions;
  request.lost = std::max(request.lost, request.computed);
  request.thrown_away += request.computed;
  ++collector_.totals.preemptions;
  collector_.count(now, Count::kPreemptions);
  collector_.event(now, EventKind::kPreempted, request.id, request.computed);
}

void Accounts::finished(const Request& request, Time now) {
  Totals& totals = collector_.totals;
  ++totals.finished;
  totals.output_tokens += request.generated;
  collector_.add(Latency::kEndToEnd, now - request.arrival);
  if (request.generated > 1) {
    collector_.add(Latency::kTimePerToken, (now - request.first_token) / static_cast<double>(request.generated - 1));
  }
  // All but the last token of the answer are computed, the first token after each prefill by that prefill.
  const std::int64_t computed = request.prompt_tokens + request.generated - 1 + request.thrown_away;
  const std::int64_t decoded = computed - request.hit - request.prefilled;
  booked_[0] += request.prefilled;
  booked_[1] += decoded;
  if (request.preemptions == 0 &&
      (request.hit + request.prefilled != request.prompt_tokens || decoded != request.generated - 1)) {
    throw SimulationError("request " + text(request.id) + ": " + text(request.hit) + " tokens hit and " +
                          text(request.prefilled) + " prefilled of a prompt of " + text(request.prompt_tokens) + "; " +
                          text(decoded) + " decoded of an answer of " + text(request.generated));
  }
  collector_.event(now, EventKind::kFinished, request.id, request.generated);
}

void Accounts::aborted(const Request& request, Time now) {
  ++collector_.totals.aborted;
  booked_[0] += request.prefilled;
  collector_.event(now, EventKind::kAborted, request.id, request.generated);
}

void Accounts::session_done(double seconds) {
  ++collector_.totals.sessions;
  collector_.add(Latency::kJobCompletion, seconds);
}

void Accounts::step(Time begin, Time end, std::int64_t steps, std::int64_t decoded, std::int64_t running,
                    std::int64_t waiting) {
  collector_.totals.steps += steps;
  collector_.totals.busy_s += end - begin;
  planned_[1] += decoded;
  pass(begin, end, running, waiting);
}

void Accounts::pass(Time begin, Time end, std::int64_t running, std::int64_t waiting) {
  const auto held = static_cast<double>(memory_.held());
  const auto cached = static_cast<double>(memory_.cached());
  collector_.totals.held_block_s += held * (end - begin);
  collector_.totals.cached_block_s += cached * (end - begin);
  const std::array<double, kGauges> gauges = {held, cached, static_cast<double>(running), static_cast<double>(waiting)};
  collector_.series->hold(begin, end, gauges);
}

void Accounts::close(Time now, std::int64_t sent, std::int64_t requests) {
  Totals& totals = collector_.totals;
  totals.unsent = requests - sent;
  totals.unresolved_block_s = memory_.idle_block_seconds(now);
  totals.useful_block_s = std::max(0.0, totals.cached_block_s - totals.wasted_block_s - totals.unresolved_block_s);
  std::vector<std::string> wrong = memory_.check();
  if (planned_ != booked_) {
    wrong.push_back("steps prefilled and decoded " + text(planned_) + " tokens, requests account for " + text(booked_));
  }
  const auto& by_cause = collector_.prefill_tokens;
  if (const auto sum = std::accumulate(by_cause.begin(), by_cause.end(), std::int64_t{0}); sum != planned_[0]) {
    wrong.push_back("prefill by cause is " + text(sum) + ", not " + text(planned_[0]) + " tokens");
  }
  if (totals.finished + totals.refused + totals.aborted != totals.requests || totals.requests != sent) {
    wrong.push_back(text(totals.finished) + " finished, " + text(totals.refused) + " refused and " +
                    text(totals.aborted) + " aborted of " + text(totals.requests) + " requests, " + text(sent) +
                    " sent");
  }
  if (wrong.empty()) return;
  std::string message = "the books do not balance: " + wrong.front();
  for (std::size_t i = 1; i < wrong.size(); ++i) message += "; " + wrong[i];
  throw SimulationError(message);
}

}  // namespace kvopt::simulator
