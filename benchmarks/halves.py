"""How much each half of the local model's vectors should count, and which notes are near.

Usage: python -m benchmarks.halves

Twenty passages in English and in German, with a question about each in both languages. For each
weight, the first table shows how many questions have their passage first, among the passages of the
other language, of their own, and of both. The second table shows the similarities by the
multilingual half, from which `shared.writer.note_duplicates` has its minimum.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.measurement import print_table
from shared.ai.embedding import Purpose
from shared.ai.local_embedding import LocalEmbedder
from shared.ai.vector_halves import ENGLISH_DIMENSION, Weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

TEXTS: Final = (
    (
        "Der Mietvertrag kann mit einer Frist von drei Monaten zum Monatsende gekündigt werden.",
        "The lease may be terminated with three months' notice to the end of a month.",
        "Wie lange ist die Kündigungsfrist der Wohnung?",
        "How much notice do I have to give for the flat?",
    ),
    (
        "Den Teig über Nacht im Kühlschrank gehen lassen und morgens bei 240 Grad backen.",
        "Let the dough rise overnight in the fridge and bake it in the morning at 240 degrees.",
        "Wann kommt das Brot in den Ofen?",
        "When does the bread go into the oven?",
    ),
    (
        "Die Wärmepumpe wurde im Herbst eingebaut und verbraucht etwa 4.000 kWh im Jahr.",
        "The heat pump was installed in autumn and uses about 4,000 kWh a year.",
        "Wie viel Strom braucht unsere Heizung?",
        "How much electricity does our heating need?",
    ),
    (
        "Das Team liefert freitags nicht mehr aus, weil am Wochenende niemand Fehler behebt.",
        "The team no longer deploys on Fridays, because nobody fixes bugs at the weekend.",
        "Warum gibt es am Freitag keine Releases?",
        "Why are there no releases on Friday?",
    ),
    (
        "Meine Großmutter kam 1948 mit dem Zug aus Breslau und arbeitete in einer Weberei.",
        "My grandmother came by train from Breslau in 1948 and worked in a weaving mill.",
        "Wo hat Oma nach dem Krieg gearbeitet?",
        "Where did grandma work after the war?",
    ),
    (
        "Die Versicherung zahlt Wasserschäden nur, wenn der Haupthahn geschlossen war.",
        "The insurance covers water damage only if the main tap was closed.",
        "Wann übernimmt die Versicherung einen Rohrbruch?",
        "When does the insurer pay for a burst pipe?",
    ),
    (
        "Gewohnheiten entstehen leichter, wenn man sie an eine bestehende Handlung anhängt.",
        "Habits form more easily when they are attached to an existing action.",
        "Wie gewöhnt man sich etwas Neues an?",
        "How do you get used to doing something new?",
    ),
    (
        "Der Zahnarzt empfiehlt, die Weisheitszähne vor der Reise entfernen zu lassen.",
        "The dentist recommends having the wisdom teeth removed before the trip.",
        "Was hat der Zahnarzt geraten?",
        "What did the dentist advise?",
    ),
    (
        "Bienen verständigen sich durch Tänze über die Lage von Blüten.",
        "Bees tell each other by dances where flowers are.",
        "Wie teilen Insekten mit, wo es Futter gibt?",
        "How do insects communicate where food is?",
    ),
    (
        "Für die Steuer müssen Rechnungen zehn Jahre aufbewahrt werden.",
        "For taxes, invoices have to be kept for ten years.",
        "Wie lange muss ich Belege aufheben?",
        "How long must I keep receipts?",
    ),
    (
        "Die Katze bekommt morgens und abends je eine halbe Tablette für die Schilddrüse.",
        "The cat gets half a tablet for its thyroid in the morning and in the evening.",
        "Welche Medizin braucht das Haustier?",
        "What medicine does the pet need?",
    ),
    (
        "Beim Umzug half ein Bekannter mit seinem Lieferwagen, die Kosten lagen bei 300 Euro.",
        "An acquaintance helped with the move with his van; it cost 300 euros.",
        "Was hat der Wohnungswechsel gekostet?",
        "What did moving house cost?",
    ),
    (
        "Wer leise spricht, zwingt andere zuzuhören, schrieb sie in ihr Tagebuch.",
        "Who speaks softly forces others to listen, she wrote in her diary.",
        "Was stand über das Reden im Tagebuch?",
        "What did the diary say about talking?",
    ),
    (
        "Die Stromschnelle unterhalb der Brücke ist nur bei niedrigem Wasser befahrbar.",
        "The rapids below the bridge can only be paddled at low water.",
        "Wo ist das Paddeln gefährlich?",
        "Where is canoeing dangerous?",
    ),
    (
        "Das Passwort des Routers steht auf einem Zettel hinter dem Bücherregal.",
        "The router's password is on a note behind the bookshelf.",
        "Wo finde ich den WLAN-Schlüssel?",
        "Where do I find the wifi key?",
    ),
    (
        "Lenas Geburtstag feiern wir am See, jeder bringt einen Salat mit.",
        "We celebrate Lena's birthday at the lake; everybody brings a salad.",
        "Was soll man zur Feier mitbringen?",
        "What should one bring to the party?",
    ),
    (
        "Der Index wird erst benutzt, wenn die Abfrage nach dem ersten Feld filtert.",
        "The index is used only if the query filters by its first field.",
        "Warum ist die Datenbankabfrage langsam?",
        "Why is the database query slow?",
    ),
    (
        "Nach der Operation darf das Knie sechs Wochen lang nicht belastet werden.",
        "After the operation no weight may be put on the knee for six weeks.",
        "Wann darf ich wieder laufen?",
        "When may I walk again?",
    ),
    (
        "Der Flug nach Lissabon wurde auf den Abend verschoben, die Sitze bleiben gleich.",
        "The flight to Lisbon was moved to the evening; the seats stay the same.",
        "Hat sich die Abflugzeit geändert?",
        "Did the departure time change?",
    ),
    (
        "Tomaten brauchen viel Sonne und sollen nur unten gegossen werden.",
        "Tomatoes need much sun and should be watered only at the bottom.",
        "Wie pflegt man Gemüse im Garten?",
        "How do you care for vegetables in the garden?",
    ),
)
"""A German passage, the same in English, and a question in both languages."""

WEIGHTS: Final = (Weights(1, 0), Weights(2, 1), Weights(1, 1), Weights(1, 2), Weights(0, 1))
NAMES: Final = ("German", "English")
"""The languages, in the order of passages and questions."""


def compare(questions: Matrix, passages: Matrix, weights: Weights) -> Matrix:
    """Return the similarity of each question and each passage."""
    english = questions[:, :ENGLISH_DIMENSION] @ passages[:, :ENGLISH_DIMENSION].T
    multilingual = questions[:, ENGLISH_DIMENSION:] @ passages[:, ENGLISH_DIMENSION:].T
    weighted: Matrix = 2 * (weights.english * english + weights.multilingual * multilingual)
    return weighted / sum(weights)


def count_first(similarities: Matrix) -> int:
    """Return how many questions have their passage, in either language, first."""
    best = similarities.argmax(axis=1) % len(similarities)
    return int((best == np.arange(len(similarities))).sum())


def make_rows(passages: Sequence[Matrix], questions: Sequence[Matrix]) -> list[list[str]]:
    """Return a row for each language of questions and each language of passages."""
    rows = []
    for name, asked in zip(NAMES, questions, strict=True):
        for language, searched in (
            *zip(NAMES, passages, strict=True),
            ("both", np.vstack(passages)),
        ):
            counts = [count_first(compare(asked, searched, weights)) for weights in WEIGHTS]
            rows.append([name, language, *map(str, counts)])
    return rows


def make_similarity_rows(german: Matrix, english: Matrix) -> list[list[str]]:
    """Return the quantiles of similarities of the same and of different passages."""
    similarities = compare(german, english, Weights(0, 1))
    is_same = np.eye(len(german), dtype=bool)
    return [
        [name, *(f"{value:.2f}" for value in np.quantile(values, (0, 0.1, 0.5, 0.9, 1)))]
        for name, values in (
            ("a passage and its translation", similarities[is_same]),
            ("different passages", similarities[~is_same]),
        )
    ]


async def measure() -> None:
    """Embed the texts, and print the tables."""
    embedder = LocalEmbedder()
    german, english, *questions = [
        np.array(await embedder.embed(texts, Purpose.DOCUMENT))
        for texts in zip(*TEXTS, strict=True)
    ]
    await embedder.aclose()
    columns = ["questions", "passages", *(f"{first:g} : {second:g}" for first, second in WEIGHTS)]
    print_table("Passages first, of 20", columns, make_rows([german, english], questions))
    columns = ["multilingual half", "least", "tenth", "median", "nine tenths", "most"]
    print_table("Similarities", columns, make_similarity_rows(german, english))


if __name__ == "__main__":
    asyncio.run(measure())
