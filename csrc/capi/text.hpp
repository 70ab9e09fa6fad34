// Lists of sentences or names, one a line, in the caller's memory.
#pragma once

#include <algorithm>
#include <span>
#include <string>

namespace kvopt::capi {

inline std::string lines(std::span<const std::string> items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : "\n") + item;
  return text;
}

// As much as fits, with a zero at the end; nothing without room.
inline void write_text(const std::string& text, char* out, std::size_t capacity) {
  if (out == nullptr || capacity == 0) return;
  const std::size_t length = std::min(text.size(), capacity - 1);
  *std::copy_n(text.data(), length, out) = '\0';
}

}  // namespace kvopt::capi
