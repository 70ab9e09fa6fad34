#include "simulator/engine.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "kvopt/error.hpp"

namespace kvopt::simulator {

namespace {

constexpr std::int64_t kReportRounds = 2048;
constexpr std::int64_t kIdleSteps = 1000;  // so many steps in a row without a token are an error

std::string text(double value, int digits) {
  std::array<char, 64> out{};
  const auto end = std::to_chars(out.data(), out.data() + out.size(), value, std::chars_format::fixed, digits).ptr;
  return {out.data(), end};
}

std::string text(std::span<const Chunk> chunks) {
  std::string out = "[";
  for (const Chunk& chunk : chunks) {
    if (out.size() > 1) out += ", ";
    out += "(" + std::to_string(chunk.tokens) + ", " + std::to_string(chunk.context) + ")";
  }
  return out + "]";
}

}  // namespace

Engine::Engine(const EngineParts& parts, const std::vector<double>& times, const EngineOptions& options)
    : source_(parts.source),
      time_(parts.time),
      retention_(parts.retention),
      clients_(parts.threads, times, options.clients),
      tier_(options.tier ? std::make_unique<Tier>(*options.tier) : nullptr),
      memory_(parts.pool, source_.block_tokens(), source_.named_blocks(), options.whole_hits, parts.collector),
      accounts_(parts.collector, memory_, time_),
      waiting_(parts.scheduler, memory_, source_, accounts_, retention_, options.limits, tier_.get()),
      plan_(source_, memory_, waiting_, accounts_, retention_, time_, options.preemption, options.limits, tier_.get()),
      jump_(options.jump),
      requests_(source_.requests()) {}

void Engine::run(const std::function<void(std::int64_t)>& report) {
  for (std::int64_t round = 0;; ++round) {
    if (round % kReportRounds == 0) report(clients_.sent() - live_);
    hear_clients();
    waiting_.finish_loads(now_);
    if (retention_.before_step(now_)) waiting_.unblock();
    plan_.plan(*this);
    retention_.planned(now_);
    if (!plan_.chunks().empty() || plan_.decodes() > 0) {
      idle_steps_ = 0;
      take_step();
      continue;
    }
    const Time upcoming = next_event();
    if (plan_.preempted() && idle_steps_ < kIdleSteps) {
      ++idle_steps_;
    } else if (upcoming < kNever && !plan_.preempted()) {
      pass_time(upcoming);
    } else if (const RequestPtr request = waiting_.give_way(now_)) {
      request->computed = request->loaded = 0;  // loaded, but not counted as cached yet
      plan_.take_back(request);
    } else if (live_ > 0) {
      throw SimulationError(stalled());
    } else {
      break;
    }
  }
  retention_.close(now_);
  accounts_.close(now_, clients_.sent(), clients_.requests());
}

void Engine::hear_clients() {
  while (const auto event = clients_.take(now_)) {
    if (event->kind == Clients::Kind::kArrive) {
      arrive(event->request, event->time);
    } else if (const RequestPtr request = requests_[static_cast<std::size_t>(event->request)];
               request != nullptr && request->first_token < 0) {
      abort(request);
    }
  }
}

void Engine::arrive(std::int64_t number, Time time) {
  const RequestPtr request = source_.make(number, time, clients_.session_start(clients_.session_of(number)));
  accounts_.arrived(*request);
  const std::int64_t need = source_.blocks_needed(number);
  if (need > memory_.usable()) {
    request->state = RequestState::kFinishedIgnored;
    accounts_.refused(*request, need);
    clients_.came(number, time);
    answered(*request);
    return;
  }
  requests_[static_cast<std::size_t>(number)] = request;
  ++live_;
  retention_.arrived(request, now_);
  waiting_.add(request);
  clients_.came(number, time);
}

void Engine::abort(const RequestPtr& request) {
  retention_.aborted(request, now_);
  if (request->state == RequestState::kRunning) {
    plan_.leave(request, source_.info_at_end(request->id, now_, 0, true));
  } else {
    waiting_.remove(request, now_);
  }
  request->state = RequestState::kFinishedAborted;
  forget(*request);
  accounts_.aborted(*request, now_);
  clients_.gave_up(request->id, now_);
}

void Engine::forget(const Request& request) {
  requests_[static_cast<std::size_t>(request.id)] = nullptr;
  --live_;
}

void Engine::answered(const Request& request) {
  const auto session = clients_.answered(request.id, now_);
  if (session) accounts_.session_done(now_ - clients_.session_start(*session));
}

void Engine::take_step() {
  DecodeBatch& batch = plan_.batch();
  const auto delayed = static_cast<std::int64_t>(plan_.sitting_out().size());
  const std::int64_t decodes = plan_.decodes();
  std::int64_t context = batch.context();
  for (const RequestPtr& request : plan_.sitting_out()) context -= batch.position(*request);
  const Time begin = now_;
  std::int64_t steps = 1;
  if (!plan_.chunks().empty() || delayed > 0) {
    shapes_.clear();
    for (const auto& [request, tokens] : plan_.chunks()) shapes_.push_back({tokens, request->computed});
    now_ += step_seconds(shapes_, decodes, context);
    for (const RequestPtr& request : plan_.sitting_out()) batch.delay(request);
  } else {
    steps = run_uneventful(decodes, context);
  }
  accounts_.step(begin, now_, steps, steps * decodes, static_cast<std::int64_t>(plan_.running().size()),
                 waiting_.size());
  batch.advance(steps, delayed);
  while (const RequestPtr ended = batch.pop_end()) finish(ended);
  for (const auto& [request, tokens] : plan_.chunks()) prefilled(request, tokens);
}

// Decoding steps, one after another, until something happens that a plan must know of.
std::int64_t Engine::run_uneventful(std::int64_t decodes, std::int64_t context) {
  const std::int64_t most = jump_ ? plan_.batch().uneventful_steps() : 1;
  const Time horizon = std::min({next_event(), retention_.next_due(), waiting_.idle_until(plan_.running().size())});
  std::int64_t steps = 0;
  do {
    now_ += step_seconds({}, decodes, context);
    context += decodes;
    ++steps;
  } while (steps < most && now_ < horizon);
  return steps;
}

Time Engine::step_seconds(std::span<const Chunk> chunks, std::int64_t decodes, std::int64_t context) {
  const double ms = time_.step_ms(chunks, decodes, context);
  if (!std::isfinite(ms) || ms < 0) {
    throw SimulationError("step_ms gave " +
                          (std::isfinite(ms) ? text(ms, 3)
                           : std::isnan(ms)  ? "nan"
                                             : "inf") +
                          " ms for chunks " + text(chunks) + ", " + std::to_string(decodes) + " decodes and " +
                          std::to_string(context) + " cached tokens");
  }
  return ms / 1000.0;
}

void Engine::prefilled(const RequestPtr& request, std::int64_t tokens) {
  accounts_.prefilled(*request, tokens, now_);
  request->computed += tokens;
  if (request->computed < request->tokens()) return;
  plan_.prefill_done(request);
  ++request->generated;
  if (request->first_token < 0) {
    request->first_token = now_;
    accounts_.first_token(*request, now_);
  }
  if (request->generated >= request->output_tokens) {
    finish(request);
  } else {
    plan_.batch().join(request);
  }
}

void Engine::finish(const RequestPtr& request) {
  request->state = source_.final_state(request->id);
  const bool aborted = request->state == RequestState::kFinishedAborted;
  const RequestInfo info = source_.info_at_end(request->id, now_, request->output_tokens, aborted);
  if (aborted) {
    retention_.aborted(request, now_);
  } else {
    retention_.finished(request, info, now_);
  }
  plan_.leave(request, info);
  forget(*request);
  accounts_.finished(*request, now_);
  answered(*request);
}

void Engine::pass_time(Time until) {
  if (until <= now_) return;
  accounts_.pass(now_, until, 0, waiting_.size());
  now_ = until;
}

std::string Engine::stalled() {
  std::string state = "the simulation stalls at " + text(now_, 3) + " s: " + std::to_string(plan_.running().size()) +
                      " running, " + std::to_string(waiting_.size()) + " waiting, " + std::to_string(memory_.held()) +
                      " of " + std::to_string(memory_.usable()) + " blocks held, " + std::to_string(memory_.free()) +
                      " free";
  if (const RequestPtr head = waiting_.head(*this)) {
    state += "; the next request, " + std::to_string(head->id) + ", needs " +
             std::to_string(memory_.blocks(head->tokens())) + " blocks for " + std::to_string(head->tokens()) +
             " tokens";
  }
  return state;
}

}  // namespace kvopt::simulator
