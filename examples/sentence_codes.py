"""A sentence-transformers model that encodes text directly into readable codes.

python examples/sentence_codes.py [MODEL]

MODEL is a folder or a name on the Hugging Face Hub. For real use, fit on thousands of your own texts.
"""

import argparse
import sys
import tempfile

from nonneg.convert import NonNegativeEmbedding, NonNegativeHead

try:
    from sentence_transformers import SentenceTransformer
except ImportError as error:
    sys.exit(
        f"this example needs sentence-transformers, which cannot be imported here ({error}):"
        " pip install 'nonneg[sentence]'"
    )

TEXTS = """
The striker scored twice in the final minutes of the match.
Our goalkeeper saved a penalty and won us the cup.
The tennis champion lost in straight sets.
She broke the world record in the marathon.
Shares fell after the bank reported a loss.
The central bank raised interest rates again.
Oil prices rose as supply tightened.
The company will cut jobs to save costs.
Astronomers found a planet around a distant star.
The rocket carried a satellite into orbit.
Scientists sequenced the genome of a frog.
A telescope took pictures of a young galaxy.
The soup needs more salt and a little garlic.
Bake the bread until the crust is brown.
We had noodles with mushrooms for dinner.
Melt the butter and stir in the flour.
""".strip().splitlines()
NEW = ["The defender was sent off before half time.", "Add pepper and let the sauce simmer."]


def main() -> None:
    """Fit a head on the vectors of some sentences, append it to the model, save the model and encode new sentences."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="sentence-transformers/all-MiniLM-L6-v2")
    base = SentenceTransformer(parser.parse_args().model)
    embedding = NonNegativeEmbedding(n_components=16, max_active=3, max_iter=200, random_state=0)
    embedding.fit(base.encode(TEXTS))
    model = SentenceTransformer(modules=[*base, NonNegativeHead.of(embedding)])
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        # The head is code from outside sentence-transformers; `*NonNegativeHead.builtin(embedding)` needs no trust.
        model = SentenceTransformer(folder, trust_remote_code=True)
    known, new = model.encode(TEXTS), model.encode(NEW)
    for text, code in zip(NEW, new, strict=True):
        print(text)
        for feature in sorted(code.nonzero()[0], key=lambda feature: -code[feature]):
            examples = [TEXTS[row] for row in (-known[:, feature]).argsort()[:3] if known[row, feature] > 0]
            print(f"  {code[feature]:.2f}  feature {feature}: {' '.join(examples)}")


if __name__ == "__main__":
    main()
