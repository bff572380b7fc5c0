"""A scrolling view of styled rows that draws only the rows in sight, so that its length costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from app.text.plain import visible
from app.text.rows import Row, row

BAR, MORE = "▌", "›"
BLANK = row("")


class LinesView(ScrollView, can_focus=True):
    """Shows rows; subclasses make them.

    Rows in ``current`` stand out: by a bar at the left edge, or by the cursor's colours where ``LINE_CURSOR`` is set.
    Selected text is copied without line numbers and signs.
    """

    LINE_CURSOR: ClassVar[bool] = False
    ALLOW_SELECT = True
    DEFAULT_CSS = """
    LinesView {
        scrollbar-size: 0 1;
        scrollbar-gutter: stable;
        background: $background;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "Down", show=False, id="view.down"),
        Binding("k", "scroll_up", "Up", show=False, id="view.up"),
        Binding("g", "scroll_home", "Top", show=False, id="view.top"),
        Binding("G", "scroll_end", "End", show=False, id="view.end"),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, classes=classes)
        self._rows: list[Row] = []
        self._strips: dict[int, Strip] = {}
        self._styles: dict[str, Style] = {}
        self._current = range(0)

    @property
    def rows(self) -> Sequence[Row]:
        """What is shown."""
        return self._rows

    @property
    def columns(self) -> int:
        """How many cells a row may fill; before the first layout a guess."""
        return self.scrollable_content_region.width or 60

    @property
    def current(self) -> range:
        """Indices of the rows that stand out."""
        return self._current

    @current.setter
    def current(self, rows: range) -> None:
        changed = {*self._current, *rows}
        self._current = rows
        for index in changed:
            self._strips.pop(index, None)
        self.refresh()

    def show_rows(self, rows: Sequence[Row]) -> None:
        """Replace the rows; those at the beginning that are the very same as before are not drawn again."""
        pairs = zip(self._rows, rows, strict=False)
        same = next(
            (index for index, (old, new) in enumerate(pairs) if old is not new), min(len(self._rows), len(rows))
        )
        self._rows = list(rows)
        self._strips = {index: strip for index, strip in self._strips.items() if index < same}
        width = max((r.content.cell_length for r in self._rows), default=0) if self.styles.overflow_x != "hidden" else 0
        self._extend_to(Size(width, len(self._rows)))
        self.refresh()

    def _extend_to(self, size: Size) -> None:
        """Take the rows' size as what can be scrolled over.

        Where the widget's own size does not follow from it, nothing else moves, so the screen is not laid out again:
        that is most of the cost of a line that is added while a model streams.
        """
        if self.is_auto_height:
            self.virtual_size = size
        elif size != self.virtual_size:
            self.set_reactive(Widget.virtual_size, size)
            self._scroll_update(size)

    @property
    def is_auto_height(self) -> bool:
        """Whether the rows decide how high the widget is."""
        height = self.styles.height
        return height is None or height.is_auto

    def bring_into_view(self, rows: range, *, above: int = 2) -> None:
        """Scroll as little as needed to see rows, with some lines of what is above them."""
        if not rows:
            return
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if rows.start - above < top or rows.stop > top + height:
            self.scroll_to(y=max(0, rows.start - above), animate=False)

    def row_clicked(self, index: int) -> None:
        """React to a click on a row; does nothing unless a subclass says so."""

    def on_click(self, event: events.Click) -> None:
        """Find the clicked row."""
        index = event.y + self.scroll_offset.y
        if event.get_content_offset(self) is not None and 0 <= index < len(self._rows):
            self.row_clicked(index)

    # --- drawing --------------------------------------------------------------------------------------------------

    def notify_style_update(self) -> None:
        """Forget what was drawn in other colours."""
        super().notify_style_update()
        self._strips.clear()
        self._styles.clear()

    def render_line(self, y: int) -> Strip:
        """Draw one line of the part in sight."""
        scroll_x, scroll_y = self.scroll_offset
        index, width = scroll_y + y, self.scrollable_content_region.width
        if index >= len(self._rows):
            return Strip.blank(width, self.visual_style.rich_style)
        whole, base = self._strip(index), self._base(index)
        strip = whole.crop_extend(scroll_x, scroll_x + width, base.rich_style).apply_offsets(scroll_x, index)
        if whole.cell_length > scroll_x + width:
            more = Strip([Segment(MORE, (base + self._style("$accent")).rich_style)], 1)
            return Strip.join([strip.crop(0, width - 1), more])
        return strip

    def _strip(self, index: int) -> Strip:
        selection = self.text_selection
        if selection is None and (known := self._strips.get(index)) is not None:
            return known
        line, base = self._rows[index], self._base(index)
        content = line.content
        if self._is_plain_cursor(index):
            content = Content(content.plain)
        if selection is not None and (span := selection.get_span(index)) is not None:
            start, end = span
            chosen = Style.from_styles(self.screen.get_component_styles("screen--selection"))
            content = content.stylize(chosen, max(start, line.gutter), None if end == -1 else end)
        # Rows are made of clean text already; this is the one place that everything drawn passes.
        pieces = ((visible(text), style) for text, style in content.render(base, end="", parse_style=self._style))
        segments = [Segment(text, (base + style).rich_style) for text, style in pieces]
        strip = Strip(segments, content.cell_length)
        if index in self._current and not self.LINE_CURSOR:
            strip = self._with_bar(strip, base)
        if selection is None:
            self._strips[index] = strip
        return strip

    def _is_plain_cursor(self, index: int) -> bool:
        """Whether a row is under a cursor whose colour leaves no other colour readable: among sixteen, every one."""
        return self.LINE_CURSOR and index in self._current and self.app.native_ansi_color

    def _with_bar(self, strip: Strip, base: Style) -> Strip:
        bar = Segment(BAR, (base + self._style("$accent" if self.has_focus else "$muted")).rich_style)
        return Strip.join([Strip([bar], 1), strip.crop(1)])

    def _base(self, index: int) -> Style:
        fill = self._rows[index].fill
        if index in self._current and self.LINE_CURSOR:
            blurred = "" if self.has_focus else "blurred-"
            fill = f"$block-cursor-{blurred}foreground on $block-cursor-{blurred}background"
        return self.visual_style + self._style(fill) if fill else self.visual_style

    def _style(self, style: str | Style) -> Style:
        if isinstance(style, Style):
            return style
        if style not in self._styles:
            self._styles[style] = Style.parse(style)
        return self._styles[style]

    def watch_has_focus(self, focused: bool) -> None:
        """Redraw what stands out when the focus comes or goes."""
        super().watch_has_focus(focused)
        self.current = self._current

    # --- copying --------------------------------------------------------------------------------------------------

    def copied(self) -> str:
        """Return what is copied when nothing is selected: all of it."""
        return "\n".join(line.copied for line in self._rows)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text without gutters."""
        lines = []
        for index, line in enumerate(self._rows):
            if (span := selection.get_span(index)) is not None:
                start, end = span
                lines.append(line.content.plain[max(start, line.gutter) : None if end == -1 else end])
        return "\n".join(lines), "\n"

    def selection_updated(self, selection: Selection | None) -> None:  # noqa: ARG002 - Textual's signature
        """Redraw with the selection or without it."""
        self._strips.clear()
        self.refresh(Region(0, 0, self.size.width, self.size.height))
