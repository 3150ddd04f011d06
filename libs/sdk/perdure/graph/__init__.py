"""Pictures of definitions: Mermaid text, or SVG that stands by itself."""

from perdure.graph.mermaid import mermaid
from perdure.graph.model import Graph, graph_of
from perdure.graph.svg import svg

__all__ = ["Graph", "graph_of", "mermaid", "svg"]
