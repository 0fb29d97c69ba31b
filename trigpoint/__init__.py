"""trigpoint: Earth-observation vision-language benchmarks whose answers are measured, not guessed."""

__version__ = "0.1.0"
