"""The names of the months in several languages."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_TABLE: Final = """
en january february march april may june july august september october november december
de januar februar märz april mai juni juli august september oktober november dezember
es enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
fr janvier février mars avril mai juin juillet août septembre octobre novembre décembre
it gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre
pt janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro
nl januari februari maart april mei juni juli augustus september oktober november december
ru января февраля марта апреля мая июня июля августа сентября октября ноября декабря
pl stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia
tr ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık
sv januari februari mars april maj juni juli augusti september oktober november december
zh 一月 二月 三月 四月 五月 六月 七月 八月 九月 十月 十一月 十二月
"""  # noqa: E501, RUF001 - a language a line; Turkish has an i without a dot
MONTH_NAMES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {language: tuple(names) for language, *names in map(str.split, _TABLE.strip().splitlines())}
)
"""The names of the twelve months by language, in lower case, in the form that follows a day."""
MONTHS: Final[Mapping[str, int]] = MappingProxyType(
    {name: number for names in MONTH_NAMES.values() for number, name in enumerate(names, start=1)}
)
"""The number of the month, 1 to 12, by its name in any of the languages."""
