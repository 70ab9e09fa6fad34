/* The block pools for engines that are not written in C++: C99, and whatever can call C.
 *
 * Handles are numbers that are never used twice: one that was destroyed, belongs to another pool, is zero or never was
 * is answered with KVOPT_INVALID_HANDLE. Every function but the two that return text returns a status, changes nothing
 * unless that is KVOPT_OK, and lets no C++ exception out; kvopt_last_error() says what was wrong. Null pointers are
 * answered with KVOPT_NULL_POINTER unless a parameter is called optional.
 *
 * Structures that the caller fills begin with their size, as compiled: set them up with their ..._init function. A
 * later library takes an earlier, shorter structure; an earlier library takes a longer one as long as what it does not
 * know is zero.
 *
 * Threads: each call locks the pool that it is for, so any thread may call anything, but a request's calls must come in
 * order. A function of your own policy must not call its pool: that is answered with KVOPT_BUSY.
 *
 * Times are seconds on your own monotonic clock, keys identify a block and everything before it, counts are blocks.
 */
#ifndef KVOPT_KVOPT_H
#define KVOPT_KVOPT_H

#include <stddef.h>
#include <stdint.h>

#include "kvopt/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rises when a program that was compiled against an earlier header cannot work with the library any more. */
#define KVOPT_API_VERSION 1u

typedef int32_t kvopt_status;
enum {
  KVOPT_OK = 0,
  KVOPT_CONFIG_ERROR = 1,    /* an option or argument is outside what it may be */
  KVOPT_UNKNOWN_POLICY = 2,  /* the message names the nearest one */
  KVOPT_POLICY_LIBRARY = 3,  /* a shared library of policies cannot be used */
  KVOPT_POOL_ERROR = 4,      /* the pool refuses: time goes back, too many keys, requests hold blocks */
  KVOPT_NOT_ENOUGH = 5,      /* more blocks were asked for than can be freed */
  KVOPT_STALE_BLOCK = 6,     /* a block does not hold what the caller thinks */
  KVOPT_REFERENCE_COUNT = 7, /* a release without a reference, or more than can be counted */
  KVOPT_LEASE_ERROR = 8,     /* a lease is unknown, over, or beyond the budget */
  KVOPT_POLICY_ERROR = 9,    /* a policy broke its side of the contract */
  KVOPT_INVALID_HANDLE = 10,
  KVOPT_NULL_POINTER = 11,
  KVOPT_VERSION_MISMATCH = 12, /* of the API, or a structure of a size that this library cannot take */
  KVOPT_BUSY = 13,             /* called from within a function of the pool's own policy */
  KVOPT_OUT_OF_MEMORY = 14,
  KVOPT_INTERNAL_ERROR = 15,
  KVOPT_POLICY_STATE = 16 /* a saved state that this policy cannot go on from */
};

/* Why the last call of this thread that failed did; valid until the next one fails. Never null. */
KVOPT_API const char* kvopt_last_error(void);
/* As "0.1.0". */
KVOPT_API const char* kvopt_version(void);
/* KVOPT_VERSION_MISMATCH unless this library serves callers compiled for `api_version`: pass KVOPT_API_VERSION. */
KVOPT_API kvopt_status kvopt_check_version(uint32_t api_version);

/* ---- policies ---- */

/* Whether a pool can have this policy: "lru", "s3-fifo:small=0.1"; KVOPT_CONFIG_ERROR for one that knows the future. */
KVOPT_API kvopt_status kvopt_policy_check(const char* policy);
/* The names of all policies, one a line, into text[0, capacity), cut off there and always ended by a zero; `length`
 * (optional) gets how many bytes the whole has, without it. */
KVOPT_API kvopt_status kvopt_policy_names(char* text, size_t capacity, size_t* length);
/* Adds the policies of a shared library that was compiled against kvopt/plugin.hpp. */
KVOPT_API kvopt_status kvopt_load_policies(const char* path);

/* A run: consecutive blocks of one prefix that were stored, held and released together. */
typedef struct kvopt_run {
  uint32_t id;
  uint32_t length;   /* blocks */
  uint32_t depth;    /* blocks of its prefix in front of it */
  uint32_t hits;     /* requests that found it cached */
  uint64_t key;      /* of its first block; a digest where keys are byte strings */
  double last_use;   /* when a request last let go of it */
  uint32_t priority; /* retention priority, 0 to 100 */
  uint32_t reserved;
} kvopt_run;

/* A policy of your own. `rank` gives a run a number when nobody holds it any longer, and again when its priority
 * changes meanwhile; the lowest is evicted first, of equal ones the one that was ranked first, but nothing before what
 * is cached behind it. NaN is KVOPT_POLICY_ERROR at the next call. `destroyed` (optional) is called once, when the pool
 * is. Both may be called on any thread that calls the pool, and must return: no exception, no longjmp. */
typedef struct kvopt_policy_functions {
  size_t size;
  void* user; /* passed on as it is; optional */
  double (*rank)(void* user, const kvopt_run* run, double now);
  void (*destroyed)(void* user);
} kvopt_policy_functions;
KVOPT_API kvopt_status kvopt_policy_functions_init(kvopt_policy_functions* functions, size_t size);

/* ---- what is known of a request ---- */

enum {
  KVOPT_STOP_UNKNOWN = 0,
  KVOPT_STOP_TOOL_USE = 1,
  KVOPT_STOP_END_OF_TURN = 2,
  KVOPT_STOP_LENGTH = 3,
  KVOPT_STOP_ABORT = 4
};

/* Only `now` is required; as set up, everything else is unknown (-1). */
typedef struct kvopt_request_info {
  size_t size;
  double now;
  int64_t request; /* running number */
  int32_t session;
  int32_t turn;
  int32_t tool;
  uint32_t output_tokens;
  float gap;                /* seconds between the session's previous answer and this request */
  float expected_gap;       /* a hint: seconds until the session returns */
  float return_probability; /* a hint: whether it does, 0 to 1 */
  int32_t steps;            /* a hint: requests of the session until this prefix is needed again */
  int32_t stop;             /* KVOPT_STOP_... */
  uint8_t subagent;         /* 0 or 1 */
  uint8_t last_turn;        /* 0 or 1 */
  uint8_t reserved[2];
} kvopt_request_info;
KVOPT_API kvopt_status kvopt_request_info_init(kvopt_request_info* info, size_t size);

/* ---- a pool for whole requests: match, acquire, commit, extend, release ---- */

typedef struct kvopt_pool {
  uint64_t id;
} kvopt_pool;

/* What one request holds. */
typedef struct kvopt_allocation {
  uint64_t id;
} kvopt_allocation;

enum { KVOPT_RULE_PREFIX = 0, KVOPT_RULE_FLAT = 1 };
enum { KVOPT_LIFETIME_FIXED = 0, KVOPT_LIFETIME_REFRESH = 1 }; /* whether a hit renews a retention */
enum { KVOPT_RECLAIM_LEASES = 1 }; /* flag: end leases, latest deadline first, rather than fail */

/* As set up: lru, prefix rule, 64-bit keys, no leases, no retention, 16 tokens a block, p* of 28,600 tokens. */
typedef struct kvopt_pool_options {
  size_t size;
  const char* policy;                      /* ignored where there are functions */
  const kvopt_policy_functions* functions; /* optional */
  uint32_t capacity;                       /* blocks, 1 to 2^31 */
  uint32_t rule;                           /* KVOPT_RULE_... */
  uint32_t key_bytes;                      /* 0: keys are uint64_t; else byte strings of this length, 1 to 64 */
  uint32_t lease_budget;                   /* blocks that leases may pin at once; below capacity */
  uint32_t retention;                      /* 1: allow retain */
  uint32_t block_tokens;
  double p_star; /* tokens: the position where attention doubles a token's prefill time */
} kvopt_pool_options;
KVOPT_API kvopt_status kvopt_pool_options_init(kvopt_pool_options* options, size_t size);

KVOPT_API kvopt_status kvopt_pool_create(uint32_t api_version, const kvopt_pool_options* options, kvopt_pool* pool);
/* Ends a pool with all that its requests hold; their handles are invalid from then on. */
KVOPT_API kvopt_status kvopt_pool_destroy(kvopt_pool pool);

/* How many leading keys are cached; no effect. `keys`: `count` uint64_t, or count * key_bytes bytes; optional where
 * count is 0. */
KVOPT_API kvopt_status kvopt_pool_match(kvopt_pool pool, const void* keys, size_t count, size_t* hit);
/* References the longest cached prefix (of at most max_hit blocks; SIZE_MAX: no limit) and total - hit empty blocks,
 * evicting as needed. flags: 0 or KVOPT_RECLAIM_LEASES. `hit`: optional. */
KVOPT_API kvopt_status kvopt_pool_acquire(kvopt_pool pool, const void* keys, size_t count, size_t total, size_t max_hit,
                                          uint32_t flags, const kvopt_request_info* info, kvopt_allocation* allocation,
                                          size_t* hit);
/* Adds n empty blocks at the end. */
KVOPT_API kvopt_status kvopt_pool_extend(kvopt_pool pool, kvopt_allocation allocation, size_t n, uint32_t flags,
                                         const kvopt_request_info* info);
/* Gives keys to the next blocks, which have become full: from then on others can hit them. */
KVOPT_API kvopt_status kvopt_pool_commit(kvopt_pool pool, kvopt_allocation allocation, const void* keys, size_t count,
                                         const kvopt_request_info* info);
/* Lets go of all blocks and ends the handle. */
KVOPT_API kvopt_status kvopt_pool_release(kvopt_pool pool, kvopt_allocation allocation, const kvopt_request_info* info);
/* Each optional: blocks that were found cached, that carry a key, and all of them. */
KVOPT_API kvopt_status kvopt_pool_allocation(kvopt_pool pool, kvopt_allocation allocation, size_t* hit,
                                             size_t* committed, size_t* blocks);
/* The ids of all blocks of an allocation, 0 to capacity - 1, first to last; `room` for at least that many. */
KVOPT_API kvopt_status kvopt_pool_blocks(kvopt_pool pool, kvopt_allocation allocation, uint32_t* blocks, size_t room);

/* Pins the first n committed blocks until the deadline, whatever the policy wants. */
KVOPT_API kvopt_status kvopt_pool_lease(kvopt_pool pool, kvopt_allocation allocation, size_t n, double deadline,
                                        double now, uint64_t* lease);
KVOPT_API kvopt_status kvopt_pool_end_lease(kvopt_pool pool, uint64_t lease, double now);
/* Sets the priority (0 to 100, default 35) of committed blocks [first, first + n) for `duration` seconds (INFINITY: for
 * good), for policies that look at priorities. */
KVOPT_API kvopt_status kvopt_pool_retain(kvopt_pool pool, kvopt_allocation allocation, size_t first, size_t n,
                                         uint32_t priority, double duration, uint32_t lifetime, double now);
/* Ends leases and retentions that are due. `ended`: optional. */
KVOPT_API kvopt_status kvopt_pool_expire(kvopt_pool pool, double now, size_t* ended);
/* Evicts exactly n blocks; their ids, in order, into victims[0, n) (optional). */
KVOPT_API kvopt_status kvopt_pool_evict(kvopt_pool pool, size_t n, double now, uint32_t* victims);
/* Takes the content of cached blocks away, with everything behind them under the prefix rule. */
KVOPT_API kvopt_status kvopt_pool_forget(kvopt_pool pool, const uint32_t* blocks, size_t count);
/* Drops all cached content and leases; refused while requests hold blocks. */
KVOPT_API kvopt_status kvopt_pool_reset(kvopt_pool pool);

/* What the policy has learned, as bytes for kvopt_pool_load_state() in this process or a later one; `length` gets how
 * many there are, and state[0, capacity) all of them where there is room: ask without room first. */
KVOPT_API kvopt_status kvopt_pool_save_state(kvopt_pool pool, void* state, size_t capacity, size_t* length);
/* Goes on from it, before the first request, with the same policy and settings. */
KVOPT_API kvopt_status kvopt_pool_load_state(kvopt_pool pool, const void* state, size_t length);

/* Set `size` before the call. The first five are blocks: empty + evictable + referenced + leased = capacity. */
typedef struct kvopt_pool_stats {
  size_t size;
  uint32_t capacity;
  uint32_t empty;
  uint32_t evictable;
  uint32_t referenced;
  uint32_t leased;
  uint32_t runs;
  uint64_t requests;         /* acquire calls that succeeded */
  uint64_t hit_blocks;       /* blocks that they found cached */
  uint64_t new_blocks;       /* blocks that acquire and extend handed out */
  uint64_t stored_blocks;    /* blocks that got a key */
  uint64_t evicted_blocks;   /* cached blocks that lost their content: for room, */
  uint64_t explicit_blocks;  /* by kvopt_pool_evict, */
  uint64_t cleared_blocks;   /* by kvopt_pool_reset, */
  uint64_t forgotten_blocks; /* by kvopt_pool_forget */
  uint64_t leases_expired;
  uint64_t leases_reclaimed; /* ended early because a request needed the blocks */
  uint64_t retentions_expired;
  uint64_t bytes; /* held, if every block were a run of its own */
} kvopt_pool_stats;
KVOPT_API kvopt_status kvopt_pool_get_stats(kvopt_pool pool, kvopt_pool_stats* stats);
/* Checks every invariant, slowly: `violations` gets how many are broken, text[0, capacity) (optional) one sentence
 * each, as kvopt_policy_names writes. */
KVOPT_API kvopt_status kvopt_pool_verify(kvopt_pool pool, size_t* violations, char* text, size_t capacity);

/* ---- a pool for engines that hand out blocks one by one and count references, as vLLM's does (engine_pool.hpp) ----
 */

typedef struct kvopt_engine_pool {
  uint64_t id;
} kvopt_engine_pool;

/* As set up: vLLM's order, caching, 16 tokens a block. */
typedef struct kvopt_engine_options {
  size_t size;
  const char* policy;                      /* optional: null is vLLM's own order, LRU */
  const kvopt_policy_functions* functions; /* optional; then `policy` is ignored */
  uint32_t blocks;                         /* with block 0, which stands for nothing: 1 to 2^30 */
  uint32_t caching;                        /* 0: no block is ever cached */
  uint32_t block_tokens;
  uint32_t reserved;
  double p_star;
} kvopt_engine_options;
KVOPT_API kvopt_status kvopt_engine_options_init(kvopt_engine_options* options, size_t size);

KVOPT_API kvopt_status kvopt_engine_create(uint32_t api_version, const kvopt_engine_options* options,
                                           kvopt_engine_pool* pool);
KVOPT_API kvopt_status kvopt_engine_destroy(kvopt_engine_pool pool);

/* Hands out n free blocks, each with one reference and without content, into blocks[0, n). */
KVOPT_API kvopt_status kvopt_engine_take(kvopt_engine_pool pool, uint32_t* blocks, size_t n,
                                         const kvopt_request_info* info);
/* Adds a reference to each block, the first of a prefix first; hit: 1 where a request found them cached. */
KVOPT_API kvopt_status kvopt_engine_hold(kvopt_engine_pool pool, const uint32_t* blocks, size_t n, uint32_t hit,
                                         const kvopt_request_info* info);
/* Takes a reference off each block; those that nobody holds any longer are free, to go in this order. */
KVOPT_API kvopt_status kvopt_engine_release(kvopt_engine_pool pool, const uint32_t* blocks, size_t n,
                                            const kvopt_request_info* info);

/* Consecutive blocks of a request's table that became full. */
typedef struct kvopt_full_blocks {
  size_t size;
  const uint32_t* blocks; /* `count` of them */
  const uint8_t* hashes;  /* count * hash_bytes */
  size_t count;
  size_t hash_bytes; /* 1 to 36 */
  uint32_t first;    /* position of blocks[0] in the table */
  uint32_t before;   /* the block in front of it; UINT32_MAX: none */
  uint32_t group;    /* of layers that share a table */
  uint32_t block_tokens;
} kvopt_full_blocks;
KVOPT_API kvopt_status kvopt_full_blocks_init(kvopt_full_blocks* full, size_t size);
/* Lets others hit these blocks. */
KVOPT_API kvopt_status kvopt_engine_store(kvopt_engine_pool pool, const kvopt_full_blocks* full,
                                          const kvopt_request_info* info);
/* How many leading hashes (count * hash_bytes bytes) are cached in all groups, and their blocks: that of hash i in
 * groups[g] at blocks[i * group_count + g], with room for all. */
KVOPT_API kvopt_status kvopt_engine_longest_hit(kvopt_engine_pool pool, const uint8_t* hashes, size_t count,
                                                size_t hash_bytes, const uint32_t* groups, size_t group_count,
                                                uint32_t* blocks, size_t* hit);
/* Takes the content of a block away, held or free. */
KVOPT_API kvopt_status kvopt_engine_forget(kvopt_engine_pool pool, uint32_t block);
/* Drops all content; refused while blocks are held. */
KVOPT_API kvopt_status kvopt_engine_reset(kvopt_engine_pool pool);

/* Set `size` before the call. */
typedef struct kvopt_engine_stats {
  size_t size;
  uint32_t blocks;
  uint32_t free_blocks;   /* that nobody holds, cached or not */
  uint64_t keys;          /* different ones that are cached */
  uint64_t evictions;     /* cached blocks that were handed out */
  uint64_t bytes;         /* held */
  uint32_t policy_failed; /* 1: the policy failed, and the order has been LRU since; kvopt_engine_verify says why */
  uint32_t reserved;
} kvopt_engine_stats;
KVOPT_API kvopt_status kvopt_engine_get_stats(kvopt_engine_pool pool, kvopt_engine_stats* stats);
/* As kvopt_pool_verify; a policy that failed is one of the sentences. */
KVOPT_API kvopt_status kvopt_engine_verify(kvopt_engine_pool pool, size_t* violations, char* text, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif
