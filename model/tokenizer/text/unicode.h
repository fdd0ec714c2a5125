// Unicode functions for normalizers and added tokens. Texts are well-formed UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tp::unicode {

enum class Form : std::uint8_t { nfc, nfd, nfkc, nfkd };

std::string normalize(std::string text, Form form);

// The lower case of each character on its own: there is no final sigma.
std::string to_lower(std::string_view text);

// The upper case of each character on its own; only the sharp s becomes two characters.
std::string to_upper(std::string_view text);

// Removes characters of category M.
std::string without_marks(std::string_view text);

// Removes characters of category Mn.
std::string without_nonspacing_marks(std::string_view text);

// Removes white space at the ends.
std::string stripped(std::string_view text, bool left, bool right);

// The property White_Space.
bool is_white_space(char32_t code_point);

// A letter, mark, number-like letter, decimal digit or connector: what \w matches.
bool is_word_character(char32_t code_point);

// Letters, category L; digits, category Nd.
bool is_letter(char32_t code_point);
bool is_digit(char32_t code_point);

// Categories Cc, Cf and Co.
bool is_control_format_or_private(char32_t code_point);

// Whether the character has a lower and an upper case.
bool is_cased(char32_t code_point);

// Whether the character is visible. Python writes invisible characters in quotes as \x.. or \u....
bool is_printable(char32_t code_point);

// Length in bytes of the first extended grapheme cluster of a text that is not empty.
std::size_t first_cluster(std::string_view text);

// Length in bytes of the white space at the beginning or end of a text.
std::size_t leading_white_space(std::string_view text);
std::size_t trailing_white_space(std::string_view text);

// Columns that a character takes on a terminal: 0, 1 or 2.
std::size_t display_width(char32_t code_point);

}  // namespace tp::unicode
