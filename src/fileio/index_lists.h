// SPDX-License-Identifier: Apache-2.0
// Doubly linked lists over numbered items, without an allocation per step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace larder::fileio {

// Several lists over the same items; an item is in at most one of them. The caller knows in which.
class IndexLists {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFU;
  struct List {
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
    std::size_t count = 0;
    bool empty() const noexcept { return count == 0; }
  };

  explicit IndexLists(std::size_t items) : links_(items) {}

  void push_back(List& list, std::uint32_t item) noexcept {
    links_[item] = {list.tail, kNone};
    (list.tail == kNone ? list.head : links_[list.tail].next) = item;
    list.tail = item;
    ++list.count;
  }
  void remove(List& list, std::uint32_t item) noexcept {
    const Link link = links_[item];
    (link.prev == kNone ? list.head : links_[link.prev].next) = link.next;
    (link.next == kNone ? list.tail : links_[link.next].prev) = link.prev;
    --list.count;
  }
  // Of a list that is not empty.
  std::uint32_t pop_front(List& list) noexcept {
    const std::uint32_t item = list.head;
    remove(list, item);
    return item;
  }

 private:
  struct Link {
    std::uint32_t prev = kNone;
    std::uint32_t next = kNone;
  };
  std::vector<Link> links_;
};

}  // namespace larder::fileio
