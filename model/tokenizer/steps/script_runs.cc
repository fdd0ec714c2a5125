#include "model/tokenizer/steps/script_runs.h"

#include "model/files/split_text.h"

#include <fmt/format.h>

namespace tp {
namespace {

// The scripts of Unicode 14, except Common and the scripts that are joined below.
constexpr const char* kScripts =
    "Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali "
    "Bhaiksuki Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian "
    "Chakma Cham Cherokee Chorasmian Coptic Cuneiform Cypriot Cypro_Minoan Cyrillic Deseret "
    "Devanagari Dives_Akuru Dogra Duployan Egyptian_Hieroglyphs Elbasan Elymaic Ethiopic Georgian "
    "Glagolitic Gothic Grantha Greek Gujarati Gunjala_Gondi Gurmukhi Hangul Hanifi_Rohingya Hanunoo "
    "Hatran Hebrew Imperial_Aramaic Inherited Inscriptional_Pahlavi Inscriptional_Parthian Javanese "
    "Kaithi Kannada Kayah_Li Kharoshthi Khitan_Small_Script Khmer Khojki Khudawadi Lao Latin Lepcha "
    "Limbu Linear_A Linear_B Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen "
    "Masaram_Gondi Medefaidrin Meetei_Mayek Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao "
    "Modi Mongolian Mro Multani Myanmar Nabataean Nandinagari New_Tai_Lue Newa Nko Nushu "
    "Nyiakeng_Puachue_Hmong Ogham Ol_Chiki Old_Hungarian Old_Italic Old_North_Arabian Old_Permic "
    "Old_Persian Old_Sogdian Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage Osmanya Pahawh_Hmong "
    "Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan Saurashtra "
    "Sharada Shavian Siddham SignWriting Sinhala Sogdian Sora_Sompeng Soyombo Sundanese Syloti_Nagri "
    "Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangsa Tangut Telugu Thaana Thai "
    "Tibetan Tifinagh Tirhuta Toto Ugaritic Vai Vithkuqi Wancho Warang_Citi Yezidi Yi "
    "Zanabazar_Square";

}  // namespace

std::string script_runs() {
  // The mark of long vowels has the script Common, but counts as Japanese.
  std::string pattern =
      R"((?![ ー])\p{Common}(?:(?!ー)[\p{Common}\p{Unknown}])*)"
      R"(|[\p{Han}\p{Hiragana}\p{Katakana}ー][\p{Han}\p{Hiragana}\p{Katakana}ー\p{Unknown} ]*)";
  for (const std::string_view script : split_text(kScripts))
    pattern += fmt::format(R"(|\p{{{0}}}[\p{{{0}}}\p{{Unknown}} ]*)", script);
  return pattern;
}

}  // namespace tp
