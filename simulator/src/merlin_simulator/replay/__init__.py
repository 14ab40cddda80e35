"""Traffic on many copies of one model behind one endpoint, and a report of what came of it.

copies says what is asked, and load when, or capture both; load sends it, and observing listens to
what the endpoint tells. arithmetic and summary turn both into report.json, of which report has the
types that plans read; figures and page make its page. run joins them.
"""
