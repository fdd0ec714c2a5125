#include "launch/chat/line_editor.h"

#include "launch/common/interruptions.h"
#include "model/tokenizer/text/utf8.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <clocale>

#include <histedit.h>
#include <unistd.h>

namespace tp {
namespace {

struct Binding {
  const char* sequence;
  const wchar_t* command;  // a command of libedit, see editrc(5), or our own
};

// libedit knows fewer keys than terminals have. It would read the rest of an unknown key's sequence as text.
constexpr std::array kBindings = {
    Binding{"\x1b[A", L"ed-prev-history"},      Binding{"\x1b[B", L"ed-next-history"},
    Binding{"\x1b[C", L"ed-next-char"},         Binding{"\x1b[D", L"ed-prev-char"},
    Binding{"\x1bOA", L"ed-prev-history"},      Binding{"\x1bOB", L"ed-next-history"},
    Binding{"\x1bOC", L"ed-next-char"},         Binding{"\x1bOD", L"ed-prev-char"},
    Binding{"\x1b[1;5C", L"em-next-word"},      Binding{"\x1b[1;5D", L"ed-prev-word"},
    Binding{"\x1b[1;3C", L"em-next-word"},      Binding{"\x1b[1;3D", L"ed-prev-word"},
    Binding{"\x1b[H", L"ed-move-to-beg"},       Binding{"\x1bOH", L"ed-move-to-beg"},
    Binding{"\x1b[1~", L"ed-move-to-beg"},      Binding{"\x1b[F", L"ed-move-to-end"},
    Binding{"\x1bOF", L"ed-move-to-end"},       Binding{"\x1b[4~", L"ed-move-to-end"},
    Binding{"\x1b[3~", L"ed-delete-next-char"}, Binding{"\x1b[200~", L"tp-paste"},
    Binding{"\x1b\n", L"tp-newline"},           Binding{"\x1b\r", L"tp-newline"},
    Binding{"\x12", L"em-inc-search-prev"}};

bool is_bound(std::string_view sequence) {
  return std::any_of(kBindings.begin(), kBindings.end(),
                     [&](const Binding& binding) { return binding.sequence == sequence; });
}

std::wstring wide(std::string_view text) {
  std::wstring result;
  for (const auto [character, bytes] : utf8::Characters(text)) result += static_cast<wchar_t>(character);
  return result;
}

std::string narrow(std::wstring_view text) {
  std::string result;
  for (const wchar_t character : text) utf8::append(result, static_cast<char32_t>(character));
  return result;
}

}  // namespace

// Callbacks for libedit.
struct LineEditor::Callbacks {
  static LineEditor& self(EditLine* editor) {
    void* self = nullptr;
    el_wget(editor, EL_CLIENTDATA, &self);
    return *static_cast<LineEditor*>(self);
  }

  static wchar_t* prompt(EditLine*) {
    static wchar_t text[] = L"> ";
    return text;
  }

  // Returns 1 for a character, 0 for the end, and -1 for other events that end a line.
  static int next_key(EditLine* editor, wchar_t* key) {
    LineEditor& self = Callbacks::self(editor);
    char32_t code_point = 0;
    while ((self.event_ = self.keys_.next(code_point)) == TerminalKeys::Event::terminal_changed)
      redraw(editor);
    *key = static_cast<wchar_t>(code_point);
    errno = EINTR;
    return self.event_ == TerminalKeys::Event::key ? 1 : self.event_ == TerminalKeys::Event::end ? 0 : -1;
  }

  // The cursor's position is unknown, because a shell had the terminal in the meantime. The terminal may also
  // be in a different mode or have a different width.
  static void redraw(EditLine* editor) {
    el_wset(editor, EL_PREP_TERM, 0);
    el_wset(editor, EL_PREP_TERM, 1);
    std::FILE* out = nullptr;
    el_wget(editor, EL_GETFP, 1, &out);
    std::fputs("\r\x1b[J", out);
    el_resize(editor);
    el_wset(editor, EL_REFRESH);
  }

  static unsigned char insert(EditLine* editor, const std::wstring& text) {
    if (text.empty()) return CC_NORM;
    return el_winsertstr(editor, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  }

  static unsigned char insert_paste(EditLine* editor, wint_t) {
    return insert(editor, wide(self(editor).keys_.paste()));
  }

  static unsigned char insert_newline(EditLine* editor, wint_t) { return insert(editor, L"\n"); }
};

void LineEditor::Free::operator()(editline* editor) const { el_end(editor); }
void LineEditor::Free::operator()(historyW* history) const { history_wend(history); }

LineEditor::LineEditor(std::FILE* out) : keys_(is_bound) {
  // libedit asks the locale for the width and encoding of characters. Our texts are always UTF-8.
  std::setlocale(LC_CTYPE, "C.UTF-8");
  history_.reset(history_winit());
  editor_.reset(el_init("tp-infer", stdin, out, stderr));
  require<Error>(history_ && editor_, "cannot edit lines at this terminal: expected one that TERM describes");
  HistEventW event;
  history_w(history_.get(), &event, H_SETSIZE, 1000);
  history_w(history_.get(), &event, H_SETUNIQUE, 1);
  EditLine* const editor = editor_.get();
  el_wset(editor, EL_CLIENTDATA, this);
  el_wset(editor, EL_PROMPT, Callbacks::prompt);
  el_wset(editor, EL_EDITOR, L"emacs");
  // A pasted line may end with CR, LF or both, so the terminal must not convert them.
  el_wset(editor, EL_SETTY, L"-d", L"-icrnl", L"-inlcr", nullptr);
  el_wset(editor, EL_HIST, history_w, history_.get());
  el_wset(editor, EL_GETCFN, Callbacks::next_key);
  el_wset(editor, EL_ADDFN, L"tp-paste", L"Insert what is pasted", Callbacks::insert_paste);
  el_wset(editor, EL_ADDFN, L"tp-newline", L"Begin another line", Callbacks::insert_newline);
  for (const Binding& binding : kBindings)
    el_wset(editor, EL_BIND, wide(binding.sequence).c_str(), binding.command, nullptr);
  el_source(editor, nullptr);  // the user's own ~/.editrc
}

TerminalKeys::Event LineEditor::read(std::string& text) {
  event_ = TerminalKeys::Event::key;
  Interruptions::take_terminal_change();
  el_resize(editor_.get());
  el_wset(editor_.get(), EL_PREP_TERM,
          1);  // before the prompt, because the user may type immediately after it
  int size = 0;
  const wchar_t* const line = el_wgets(editor_.get(), &size);
  if (line == nullptr || size <= 0)
    return event_ == TerminalKeys::Event::interrupted ? event_ : TerminalKeys::Event::end;
  std::wstring_view typed(line, static_cast<std::size_t>(size));
  while (typed.ends_with(L'\n'))
    typed.remove_suffix(1);  // Enter's newline, and a newline of a paste before it
  text = narrow(typed);
  if (!text.empty()) {
    HistEventW event;
    history_w(history_.get(), &event, H_ENTER, std::wstring(typed).c_str());
  }
  return TerminalKeys::Event::key;
}

}  // namespace tp
