// OrderDuels: whoever comes back first decides, once; events that are over, and duels that made room, decide nothing.
#include "check.hpp"
#include "core/order_duels.hpp"

namespace {

using kvopt::EventId;
using kvopt::OrderDuels;
using kvopt::ReleaseEvent;
using kvopt::ReleaseEvents;

EventId open(ReleaseEvents& events) { return events.open(ReleaseEvent{.cached = 1}, -1, {}); }

void the_first_to_return_decides() {
  ReleaseEvents events(100, 10);
  OrderDuels duels;
  const EventId a = open(events);
  const EventId b = open(events);
  duels.begin(events, {a, 3}, {b, 5});
  duels.returned(events, b);
  CHECK(duels.tally().sum == 5);  // time would have evicted it
  duels.returned(events, a);
  duels.returned(events, b);
  CHECK(duels.tally().sum == 5);
  duels.begin(events, {a, 3}, {b, 5});
  duels.returned(events, a);
  CHECK(duels.tally().sum < 2.01 && duels.tally().sum > 1.95);  // the index would have, and the past fades
}

void an_event_that_is_over_does_not_decide() {
  ReleaseEvents events(100, 10);
  OrderDuels duels;
  const EventId a = open(events);
  const EventId b = open(events);
  duels.begin(events, {a, 3}, {b, 5});
  events.take_cached(b, 1);
  CHECK(open(events) == b);  // another release under its number
  duels.returned(events, b);
  CHECK(duels.tally().stakes == 0);
  duels.returned(events, a);
  CHECK(duels.tally().sum == -3);
}

void the_oldest_duel_makes_room() {
  constexpr std::uint32_t kMany = 513;
  ReleaseEvents events(2 * kMany, 10);
  OrderDuels duels;
  for (std::uint32_t i = 0; i < kMany; ++i) {
    const EventId by_index = open(events);
    duels.begin(events, {by_index, 1}, {open(events), 1});
  }
  CHECK(events[0].duel == 0 && events[1].duel == 0);
  for (EventId e = 0; e < 2 * kMany; ++e) duels.returned(events, e);
  CHECK(duels.tally().sum < 0 && duels.tally().sum == -duels.tally().stakes);
}

void an_index_that_knows_wins_and_a_coin_does_not() {
  ReleaseEvents events(100, 10);
  OrderDuels knows;
  OrderDuels guesses;
  const EventId a = open(events);
  const EventId b = open(events);
  for (int i = 0; i < 1000; ++i) {
    knows.begin(events, {a, 1}, {b, 1});
    knows.returned(events, i % 3 > 0 ? b : a);
    guesses.begin(events, {a, 1}, {b, 1});
    guesses.returned(events, i % 2 > 0 ? b : a);
  }
  CHECK(knows.tally().index_wins());
  CHECK(!guesses.tally().index_wins());
}

}  // namespace

int main() {
  return kvopt::test::run_all(
      {{"the first to return decides", the_first_to_return_decides},
       {"an event that is over does not decide", an_event_that_is_over_does_not_decide},
       {"the oldest duel makes room", the_oldest_duel_makes_room},
       {"an index that knows wins and a coin does not", an_index_that_knows_wins_and_a_coin_does_not}});
}
