// What decides which cached blocks are evicted next. Policies work on runs (run_table.hpp), not on single blocks.
//
// Duties. The pool guarantees: attach() comes first and once; a run is evictable for the policy exactly from an
// on_evictable() that names it until the next on_referenced() or on_dropped() that does; spans hold the runs of one
// request, the deepest first; columns of the table are up to date when a hook is called; hooks are never called
// concurrently; what is behind an evictable run is evictable too (a request holds everything in front of what it
// holds). The policy must: allocate in attach() only; name in choose() a victim, that is, an evictable run without
// children (leaf first); keep the run in its order until on_dropped(), because the pool may take only some blocks off
// its deep end; never block, throw or call back into the pool from a hook.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvopt/error.hpp"
#include "kvopt/export.h"
#include "kvopt/run_table.hpp"
#include "kvopt/types.hpp"

namespace kvopt {

enum class StopReason : std::uint8_t { kUnknown, kToolUse, kEndOfTurn, kLength, kAbort };

// What the server knows of a request and its session when it calls the pool. Everything but `now` may be unknown.
struct RequestInfo {
  Time now = 0;
  std::int64_t request = -1;  // running number, for traces
  std::int32_t session = -1;
  std::int32_t turn = -1;
  std::int32_t tool = -1;
  std::uint32_t output_tokens = 0;
  float gap = -1;                 // seconds between the session's previous answer and this request; negative: unknown
  float expected_gap = -1;        // a client's hint: seconds until it returns; negative: unknown
  float return_probability = -1;  // a hint: whether the session goes on, 0 to 1; negative: unknown
  std::int32_t steps = -1;        // a hint: requests of the session until this prefix is needed again; -1: unknown
  StopReason stop = StopReason::kUnknown;
  bool subagent = false;
  bool last_turn = false;
};

// Prefix: a block is only of use behind all blocks before it. Flat: blocks are independent of each other.
enum class Rule : std::uint8_t { kPrefix, kFlat };

enum class DropReason : std::uint8_t { kCapacity, kExplicit, kCleared, kForgotten };
inline constexpr std::size_t kDropReasons = 4;

// Tokens: with less, costs of long prompts are out of range.
inline constexpr double kLeastPStar = 1e-3;

// What a policy is told of the pool that it serves.
struct PolicyContext {
  const RunTable& runs;  // outlives the policy
  Rule rule = Rule::kPrefix;
  std::uint32_t block_tokens = 16;
  double p_star = 28'600;  // tokens: the position where attention doubles a token's prefill time

  // Prefill time that a block at this depth (blocks before it) takes, in units of a token at position 0.
  double block_cost(double depth) const { return block_tokens * (1 + (depth + 0.5) * block_tokens / p_star); }
};

// What a policy's hits have saved since the start, and those of LRU would have on the same requests: prefill time in
// units of a token at position 0.
struct ShadowComparison {
  double own = 0;
  double lru = 0;
  bool lru_decides = false;  // LRU saves more at present, so its order is used
};

// What a run that nobody holds is worth to a policy, and why.
struct RunValue {
  double value = 0;      // the least goes first
  double rate = 0;       // chance of a return per second that a block is kept, at the best horizon
  double cost = 0;       // prefill time that losing a block adds, in units of a token at position 0
  double favour = 1;     // what its retention priority multiplies the value by
  Time age = 0;          // seconds since somebody let go of it
  double usual_gap = 0;  // seconds that its session is expected to take
  std::string group;     // the class of releases that it is counted with, in words
  std::string order;     // what decides at present, in words
};

// The same of the blocks of a run.
struct BlockValue : RunValue {
  RunId run = kNoRun;
  std::uint32_t blocks = 0;
  std::uint32_t depth = 0;     // blocks of its prefix in front of it
  std::uint32_t children = 0;  // runs behind it; a run with any is no victim
  std::uint32_t hits = 0;
  std::uint8_t priority = 0;
};

class KVOPT_API Policy {
 public:
  Policy() = default;
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;
  virtual ~Policy() = default;

  // Called once.
  virtual void attach(const PolicyContext& context) = 0;

  // A request needs content that begins with this key and is not cached. Comes before choose() for its room, and before
  // the on_stored() of a run that begins with it, if that ever comes. Under the flat rule once a block.
  virtual void on_miss(std::uint64_t /*key*/, const RequestInfo& /*info*/) {}
  // A request found these runs cached; its references are not counted yet.
  virtual void on_hit(std::span<const RunId> /*hit*/, const RequestInfo& /*info*/) {}
  // These runs are new and can be hit from now on; the request holds them.
  virtual void on_stored(std::span<const RunId> /*stored*/, const RequestInfo& /*info*/) {}
  // The first part of `tail` is now the run `head`, its parent, in the same state. An evictable head goes after its
  // tail.
  virtual void on_split(RunId /*head*/, RunId /*tail*/) {}
  // Evictable runs are now held by a request or a lease.
  virtual void on_referenced(std::span<const RunId> runs) = 0;
  // Nobody holds these runs any longer.
  virtual void on_evictable(std::span<const RunId> runs, const RequestInfo& info) = 0;
  // Evictable runs that the pool takes away: chosen, cleared or forgotten.
  virtual void on_dropped(std::span<const RunId> runs) = 0;
  // The content of a run was cleared or forgotten: it is of no use to anybody. Comes after on_dropped() where the run
  // was evictable. Where a request or a lease holds it, this is the last hook that names it until its id is stored
  // anew.
  virtual void on_forgotten(RunId /*run*/) {}
  // An evictable run lost its last child: it is a possible victim now.
  virtual void on_uncovered(RunId /*run*/) {}
  // A possible victim lost some blocks off its deep end.
  virtual void on_trimmed(RunId /*run*/) {}
  // Blocks of `run` that were chosen are gone: `blocks` of them, the first with this key. Comes before on_trimmed()
  // when some are left; else the run's columns are readable for the last time. What to remember of what was evicted (a
  // ghost): when the content comes back, it is stored as a run that begins with this key.
  virtual void on_evicted(RunId /*run*/, std::uint64_t /*key*/, std::uint32_t /*blocks*/) {}
  // The retention priority of this run changed.
  virtual void on_priority(RunId /*run*/) {}
  // Whether the order depends on RunTable::priority. Pools refuse retain() where it does not.
  virtual bool honours_priority() const { return false; }

  // The next victim. There is one: `wanted` > 0 blocks are still needed, and at least as many can be evicted.
  virtual RunId choose(std::uint32_t wanted, Time now) = 0;
  // How many blocks off the deep end of the run that choose() has just named may go (1 up); what is more stays, and
  // choose() is asked again. By default all.
  virtual std::uint32_t expendable(RunId /*run*/) const { return UINT32_MAX; }

  // Whether what it learns can be saved and loaded.
  virtual bool learns() const { return false; }
  // What it has learned, for load_state() of the same policy with the same parameters, in this process or a later one.
  // Between hooks. Throws PolicyStateError where it learns nothing.
  virtual std::string save_state() const { throw PolicyStateError(kLearnsNothing); }
  // Goes on from what another has learned. After attach() and before any other hook. Throws PolicyStateError, with
  // nothing changed, where it learns nothing, has learned already, or these bytes are foreign, damaged, of another
  // version, policy or parameters.
  virtual void load_state(std::string_view /*state*/) { throw PolicyStateError(kLearnsNothing); }

  // Whether explain() answers.
  virtual bool explains() const { return false; }
  // Of an evictable run, while nothing is changed. Throws ConfigError where it explains nothing.
  virtual RunValue explain(RunId /*run*/, Time /*now*/) const {
    throw ConfigError("this policy cannot say what blocks are worth");
  }

  // Throws what went wrong in an earlier hook, if anything did. The pool calls it before it changes anything.
  virtual void check() const {}
  // Every evictable run is in the order exactly once, and nothing else is; else a sentence that says what is wrong.
  virtual std::string verify() const { return {}; }
  // Bytes held besides the table.
  virtual std::size_t bytes() const { return 0; }

 protected:
  static constexpr const char* kLearnsNothing = "this policy learns nothing that can be saved or loaded";
};

struct PolicyParameter {
  std::string name;
  double value;  // the default
  double lowest;
  double highest;
  std::string description;
};

struct PolicyInfo {
  std::string name;
  std::string summary;
  std::string reference;                // the paper or engine that it comes from
  bool offline = false;                 // knows the future: for replay only
  std::vector<std::string> needs = {};  // what it is nothing without: columns of a trace, fields of RequestInfo
  std::vector<PolicyParameter> parameters = {};
};

// "lfu", "s3-fifo:small=0.1,ghost=0.9": a name and settings, all known and within range.
struct PolicySpec {
  std::string name;
  std::vector<double> parameters;  // in the order of PolicyInfo::parameters
};

// A policy, and how it is made.
struct PolicyEntry {
  PolicyInfo info;
  // Parameters come checked, in the order of PolicyInfo::parameters. Null: offline.
  std::unique_ptr<Policy> (*make)(std::span<const double> parameters) = nullptr;
};

// All policies: built-in ones, online before offline; then those that were added.
KVOPT_API std::vector<PolicyInfo> policies();
// Makes more policies known by name; all or none. Throws ConfigError for a name that exists or cannot be written in a
// spec, for a policy that cannot be made, and for parameters without a sensible range.
KVOPT_API void add_policies(std::span<const PolicyEntry> entries);
// Adds the policies of a shared library (plugin.hpp) and returns what they are; the same again where it is loaded
// already. Throws PolicyLibraryError.
KVOPT_API std::vector<PolicyInfo> load_policy_library(const std::string& path);
// Throws UnknownPolicyError (naming the nearest known one) or ConfigError.
KVOPT_API PolicySpec parse_policy(std::string_view spec);
// Throws ConfigError for an offline policy.
KVOPT_API std::unique_ptr<Policy> make_policy(const PolicySpec& spec);

}  // namespace kvopt
