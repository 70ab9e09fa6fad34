/* A block pool from C: a request's life, a policy of our own as a function, and what happens to mistakes. */
#include <inttypes.h>
#include <kvopt/kvopt.h>
#include <stdio.h>
#include <stdlib.h>

/* Every call answers with a status; the text belongs to this thread's last failure. */
static void check(kvopt_status status) {
  if (status == KVOPT_OK) return;
  fprintf(stderr, "status %d: %s\n", (int)status, kvopt_last_error());
  exit(1);
}

/* The lowest is evicted first: what was used longest ago, with a minute's grace for each hit. */
static double graceful(void* grace, const kvopt_run* run, double now) {
  (void)now;
  return run->last_use + *(const double*)grace * run->hits;
}

static kvopt_pool make_pool(uint32_t capacity, double* grace) {
  kvopt_policy_functions functions;
  check(kvopt_policy_functions_init(&functions, sizeof functions));
  functions.rank = graceful;
  functions.user = grace;

  kvopt_pool_options options;
  check(kvopt_pool_options_init(&options, sizeof options));
  options.capacity = capacity;
  options.functions = &functions; /* or options.policy = "cost-aware" */

  kvopt_pool pool;
  check(kvopt_pool_create(KVOPT_API_VERSION, &options, &pool));
  return pool;
}

/* Serves one prompt, given as a key a block, and two blocks of answer; says how much of the prompt was cached. */
static size_t serve(kvopt_pool pool, const uint64_t* prompt, size_t count, double now) {
  kvopt_request_info info;
  kvopt_allocation request;
  size_t hit;
  uint32_t blocks[16];
  check(kvopt_request_info_init(&info, sizeof info));
  info.now = now;
  check(kvopt_pool_acquire(pool, prompt, count, count, SIZE_MAX, 0, &info, &request, &hit));
  check(kvopt_pool_extend(pool, request, 2, 0, &info));
  check(kvopt_pool_blocks(pool, request, blocks, 16)); /* the ids that the kernels read and write */
  check(kvopt_pool_commit(pool, request, prompt + hit, count - hit, &info));
  info.now = now + 1;
  info.stop = KVOPT_STOP_END_OF_TURN;
  check(kvopt_pool_release(pool, request, &info));
  return hit;
}

static void print_stats(kvopt_pool pool) {
  kvopt_pool_stats stats;
  size_t violations;
  stats.size = sizeof stats;
  check(kvopt_pool_get_stats(pool, &stats));
  check(kvopt_pool_verify(pool, &violations, NULL, 0));
  printf("%" PRIu64 " requests, %" PRIu64 " blocks hit, %" PRIu64 " stored, %" PRIu64
         " evicted; %u of %u hold content\n",
         stats.requests, stats.hit_blocks, stats.stored_blocks, stats.evicted_blocks, stats.evictable, stats.capacity);
  printf("%zu invariants are broken\n", violations);
}

int main(void) {
  const uint64_t chat[] = {11, 12, 13, 14};
  double grace = 60;
  kvopt_pool pool = make_pool(10, &grace);
  printf("KVopt %s\n", kvopt_version());
  for (int turn = 0; turn < 5; ++turn) {
    const uint64_t other[] = {100 + 10 * (uint64_t)turn, 101 + 10 * (uint64_t)turn};
    printf("turn %d: %zu of 4 blocks hit\n", turn, serve(pool, chat, 4, 10.0 * turn));
    serve(pool, other, 2, 10.0 * turn + 5);
  }
  print_stats(pool);
  check(kvopt_pool_destroy(pool));

  /* A handle that is over is recognised, and the message names it. */
  if (kvopt_pool_destroy(pool) == KVOPT_INVALID_HANDLE) printf("as expected: %s\n", kvopt_last_error());
  return 0;
}
