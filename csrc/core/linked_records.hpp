// A doubly linked list of records of an array, threaded through a member of theirs: as RunList, where what is next lies
// beside what else is looked at. No allocation.
#pragma once

#include <cstdint>

namespace kvopt {

struct Links {
  std::uint32_t next = 0;
  std::uint32_t previous = 0;
};

// `Threaded` is the member of a record. The records are the caller's; the one at `end` is part of the list's ring.
template <class Record, Links Record::* Threaded>
class LinkedRecords {
 public:
  LinkedRecords(Record* records, std::uint32_t end) : records_(records), end_(end) { links(end_) = {end_, end_}; }

  std::uint32_t front() const { return links(end_).next; }
  std::uint32_t next(std::uint32_t r) const { return links(r).next; }  // `end` after the last

  void append(std::uint32_t r) {
    const std::uint32_t last = links(end_).previous;
    links(r) = {end_, last};
    links(last).next = links(end_).previous = r;
  }

  // r must be in the list.
  void remove(std::uint32_t r) {
    const Links out = links(r);
    links(out.previous).next = out.next;
    links(out.next).previous = out.previous;
  }

 private:
  Links& links(std::uint32_t r) const { return records_[r].*Threaded; }

  Record* records_;
  std::uint32_t end_;
};

}  // namespace kvopt
